// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include "tests/catch.h"

#include "core/data/images/resample.h"
#include "core/data/images/synthetic.h"
#include "core/data/images/transforms/table.h"
#include "tests/data/samples.h"

namespace trainer {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

const Shape kAnySize = {3, -1, -1};

std::unique_ptr<Transform> sized(const std::string& name, int64_t size) {
  auto transform = make_transform(name);
  set(*transform, "size", size);
  transform->origin.path = "augment." + name;
  return transform;
}

std::vector<std::string> problems(const TransformList& list, const Shape& input) {
  Diagnostics diagnostics;
  TransformChain(list, input, diagnostics);
  return diagnostics.problems();
}

TEST_CASE("random_resized_crop draws windows of the areas and shapes asked for, everywhere") {
  const auto crop = sized("random_resized_crop", 224);
  CHECK(crop->is_random());
  const auto& view = dynamic_cast<const ViewTransform&>(*crop);
  const int64_t height = 375, width = 500;
  double area_sum = 0, least = 1, most = 0;
  bool touches_left = false, touches_right = false, touches_top = false, touches_bottom = false;
  constexpr int kDraws = 4000;
  for (uint32_t i = 0; i < kDraws; ++i) {
    RandomStream random(2, 0, i);
    const View drawn = view.view(height, width, random);
    const auto [y, x] = std::pair{drawn.y, drawn.x};
    REQUIRE(y.out == 224);
    REQUIRE(x.out == 224);
    for (const auto& [axis, size] : {std::pair{y, height}, std::pair{x, width}}) {
      REQUIRE(axis.low == static_cast<int64_t>(axis.begin));
      REQUIRE(axis.high == axis.low + static_cast<int64_t>(axis.length));
      REQUIRE(axis.low >= 0);
      REQUIRE(axis.high <= size);
    }
    const double shape = x.length / y.length,
                 area = x.length * y.length / static_cast<double>(height * width);
    REQUIRE(shape == Approx(1.0).margin(0.35));
    area_sum += area, least = std::min(least, area), most = std::max(most, area);
    touches_left = touches_left || x.low < 5, touches_right = touches_right || x.high > width - 5;
    touches_top = touches_top || y.low < 5, touches_bottom = touches_bottom || y.high > height - 5;
  }
  CHECK(least == Approx(0.08).margin(0.01));
  CHECK(most > 0.9);
  // Large windows are drawn again more often, as they do not fit: below the mean of 0.54 of all areas.
  CHECK(area_sum / kDraws > 0.42);
  CHECK(area_sum / kDraws < 0.54);
  CHECK((touches_left && touches_right && touches_top && touches_bottom));
}

TEST_CASE("where no window fits, random_resized_crop takes the largest one in the middle") {
  const auto crop = sized("random_resized_crop", 8);
  set(*crop, "scale", std::vector<double>{1, 1});
  RandomStream random(1);
  const View wide = dynamic_cast<const ViewTransform&>(*crop).view(30, 400, random);
  CHECK(wide.y.length == 30);
  CHECK(wide.x.length == 40);
  CHECK(wide.x.begin == 180);
  const View high = dynamic_cast<const ViewTransform&>(*crop).view(400, 30, random);
  CHECK(high.x.length == 30);
  CHECK(high.y.length == 40);
  CHECK(high.y.begin == 180);
}

TEST_CASE("resize scales the shorter side, center_crop cuts the middle") {
  const auto resize = sized("resize", 256);
  RandomStream random(1);
  const View view = dynamic_cast<const ViewTransform&>(*resize).view(500, 375, random);
  CHECK(view.x.out == 256);
  CHECK(view.y.out == 341);
  Diagnostics diagnostics;
  CHECK(resize->output_shape({3, 375, 500}, diagnostics) == Shape{3, 256, 341});
  CHECK(resize->output_shape({3, 20, 20}, diagnostics) == Shape{3, 256, 256});
  CHECK(resize->output_shape(kAnySize, diagnostics) == Shape{3, -256, -256});
  const auto crop = sized("center_crop", 224);
  const View middle = dynamic_cast<const ViewTransform&>(*crop).view(341, 256, random);
  CHECK(middle.y.begin == 58);  // 58.5 rounds to even
  CHECK(middle.x.begin == 16);
  CHECK(dynamic_cast<const ViewTransform&>(*crop).view(343, 227, random).y.begin == 60);  // 59.5
  CHECK(diagnostics.ok());
}

TEST_CASE("lists for images of any size are checked where they stand") {
  TransformList list;
  list.push_back(sized("resize", 40));
  list.push_back(sized("center_crop", 40));
  list.push_back(make_transform("horizontal_flip"));
  CHECK(make_chain(list, kAnySize).output_shape() == Shape{3, 40, 40});
  CHECK(make_chain({}, kAnySize).output_shape() == kAnySize);

  set(*list[1], "size", int64_t{41});
  REQUIRE(problems(list, kAnySize).size() == 1);
  CHECK_THAT(problems(list, kAnySize)[0], ContainsSubstring("augment.center_crop") &&
                                              ContainsSubstring("must be at most 40") &&
                                              ContainsSubstring("got 41"));
  list.erase(list.begin());
  REQUIRE(problems(list, kAnySize).size() == 1);
  CHECK_THAT(problems(list, kAnySize)[0], ContainsSubstring("put resize before it"));
  list.erase(list.begin());
  list[0]->origin.path = "augment.horizontal_flip";
  REQUIRE(problems(list, kAnySize).size() == 1);
  CHECK_THAT(problems(list, kAnySize)[0],
             ContainsSubstring("augment.horizontal_flip") && ContainsSubstring("needs images of one size"));
  list[0] = sized("random_resized_crop", 8);
  set(*list[0], "scale", std::vector<double>{0.9, 0.2});
  set(*list[0], "ratio", std::vector<double>{1});
  list[0]->written["scale"], list[0]->written["ratio"];
  REQUIRE(problems(list, kAnySize).size() == 2);
  CHECK_THAT(problems(list, kAnySize)[0],
             ContainsSubstring("scale: must be two numbers, the smaller first, got [0.9, 0.2]"));
  CHECK_THAT(problems(list, kAnySize)[1], ContainsSubstring("ratio") && ContainsSubstring("got [1]"));
}

/// Reads like image folders do: the view is applied by the source. Remembers the requests.
class ViewingSource final : public CountingSource {
 public:
  using CountingSource::CountingSource;
  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    chooser.choose(500, 17);  // as for an image that then turned out unreadable
    CountingSource::read(index, into);
    last = chooser.choose(into.height, into.width);
    resample(into, last);
  }
  mutable View last;
};

TEST_CASE("views at the head of a list are the source's, and make the same bits as one after the other") {
  const Shape shape = {3, 40, 56};
  const ViewingSource source(10, shape);
  TransformList list;
  const bool random = GENERATE(false, true);
  list.push_back(sized(random ? "random_resized_crop" : "resize", 32));
  list.push_back(sized("center_crop", 20));
  list.push_back(make_transform("horizontal_flip"));
  const TransformChain chain = make_chain(list, shape);
  for (int64_t sample = 0; sample < 10; ++sample) {
    const RandomStream draws(6, 0, static_cast<uint32_t>(sample));
    Image by_source, stepwise;
    chain.read(source, sample, draws, by_source);
    CHECK(source.last.y.out == 20);
    RandomStream own = draws;
    source.read(sample, stepwise);
    dynamic_cast<const ViewTransform&>(*list[0]).view(500, 17, own);  // draws that must not count
    own = draws;
    for (const auto& step : list) step->apply(stepwise, own);
    CHECK(by_source.pixels == stepwise.pixels);
    CHECK(by_source.label == stepwise.label);
    Image by_default;
    chain.read(CountingSource(10, shape), sample, draws, by_default);
    CHECK(by_default.pixels == by_source.pixels);
  }
}

}  // namespace
}  // namespace trainer
