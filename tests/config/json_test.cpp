// SPDX-License-Identifier: Apache-2.0
#include "core/base/json.h"

#include <cmath>
#include <stdexcept>
#include "tests/catch.h"

namespace trainer {
namespace {

TEST_CASE("json: a value is written as JSON writes it, and members keep their order") {
  Json json = {{"z", 1}, {"a", {1.5, "two", nullptr, true}}, {"pairs", Json::array({{"k", 2}})}};
  json["m"] = std::vector<int64_t>{3, 4};
  json["of"] = std::map<std::string, double>{{"b", 2}, {"a", 1}};
  json["none"] = Json::array();
  CHECK(json.dump() ==
        R"({"z":1,"a":[1.5,"two",null,true],"pairs":[["k",2]],"m":[3,4],"of":{"a":1.0,"b":2.0},"none":[]})");
  CHECK(Json::parse(json.dump(2)).value().dump() == json.dump());
  json.erase("a");
  json.sort();
  CHECK(json.dump() == R"({"m":[3,4],"none":[],"of":{"a":1.0,"b":2.0},"pairs":[["k",2]],"z":1})");
}

TEST_CASE("json: null becomes what is added to it") {
  Json json;
  json["list"].push_back(1);
  json["list"].push_front(0);
  CHECK(json.dump() == R"({"list":[0,1]})");
  CHECK(json["list"].items()[1].integer() == 1);
  CHECK(Json().empty());
}

TEST_CASE("json: of members of one name the last counts") {
  Json json = Json::parse(R"({"a":1,"b":2,"a":3})").value();
  CHECK(json["a"].integer() == 3);
  json.sort();
  CHECK(json.dump() == R"({"a":3,"b":2})");
}

TEST_CASE("json: whole numbers that do not fit are numbers all the same") {
  const Json json =
      Json::parse("[9223372036854775807, 9223372036854775808, -1, 1e3, 99999999999999999999]").value();
  CHECK(json.items()[0].integer() == INT64_MAX);
  CHECK_FALSE(json.items()[1].integer());
  CHECK(json.items()[1].is_whole());
  CHECK(json.items()[2].integer() == -1);
  CHECK_FALSE(json.items()[3].integer());
  CHECK(json.items()[3].number() == 1000);
  CHECK(json.items()[4].number() == 1e20);
  CHECK(Json(std::nan("")).dump() == "null");
}

TEST_CASE("json: what is not JSON is told") {
  std::string problem;
  CHECK_FALSE(Json::parse("{\"a\":", &problem));
  CHECK(problem.find("parse error at line 1, column 6") != std::string::npos);
  CHECK(Json::parse_or_null("[1,]").is_null());
  CHECK(Json::parse(std::string(100, '[') + std::string(100, ']')));
  CHECK_FALSE(Json::parse(std::string(101, '[') + std::string(101, ']'), &problem));
  CHECK(problem == "it is nested too deeply");
  CHECK_FALSE(Json::parse(std::string(1000000, '['), &problem));
}

TEST_CASE("json: bytes that are not UTF-8 are refused or replaced") {
  const Json json = {{"name", "a\xff"}};
  CHECK_THROWS_AS(json.dump(), std::exception);
  CHECK(json.dump(-1, Json::NotUtf8::replace) == "{\"name\":\"a\xef\xbf\xbd\"}");
}

TEST_CASE("json: what a value does not hold is a mistake") {
  const Json json = {{"a", 1}};
  CHECK(json.find("b") == nullptr);
  CHECK(Json("text").find("b") == nullptr);
  CHECK_THROWS_AS(json["b"], std::logic_error);
  CHECK_THROWS_AS(json["a"].text(), std::logic_error);
  CHECK_THROWS_AS(json.items(), std::logic_error);
}

}  // namespace
}  // namespace trainer
