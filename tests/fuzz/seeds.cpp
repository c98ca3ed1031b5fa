// SPDX-License-Identifier: Apache-2.0
// Writes what the fuzzers begin with into FOLDER/NAME for each fuzz_NAME.
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "core/data/images/decode.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/record.h"
#include "core/data/images/synthetic.h"
#include "core/data/tokens/shards.h"
#include "core/metrics/metrics.h"
#include "core/quantization/int8_network.h"
#include "core/ranks/handshake.h"
#include "core/recipe/recipe.h"
#include "core/run/run_state.h"
#include "core/storage/checkpoint.h"
#include "core/storage/safetensors_header.h"
#include "core/sweep/trial_record.h"
#include "tests/data/images/images.h"

namespace trainer {
namespace {

void put(const std::filesystem::path& folder, const std::string& bytes) {
  std::filesystem::create_directories(folder);
  size_t number = 0;
  while (std::filesystem::exists(folder / ("seed" + std::to_string(number)))) ++number;
  std::ofstream(folder / ("seed" + std::to_string(number)), std::ios::binary) << bytes;
}

void put_jpegs(const std::filesystem::path& folder) {
  for (bool progressive : {false, true}) {
    for (const auto& [h, v] : {std::pair{1, 1}, std::pair{2, 1}, std::pair{2, 2}, std::pair{4, 1}}) {
      JpegOptions options;
      options.h_samples = h, options.v_samples = v, options.progressive = progressive;
      options.orientation = h + 2 * v, options.restart_rows = h == 2 ? 1 : 0;
      put(folder, jpeg(landscape(33, 41), options));
    }
  }
  put(folder, jpeg(landscape(20, 20, 1), {.colours = "grey"}));
  put(folder, jpeg(landscape(20, 20, 4), {.colours = "cmyk", .adobe = false}));
  put(folder, jpeg(landscape(20, 20, 4), {.colours = "ycck"}));
}

void put_pngs(const std::filesystem::path& folder) {
  for (bool interlaced : {false, true}) {
    for (int channels : {1, 2, 3, 4}) {
      for (int bits : {8, 16}) {
        PngOptions options;
        options.bits = bits, options.interlaced = interlaced, options.orientation = channels + 3;
        put(folder, png(landscape(13, 17, channels), options));
      }
    }
    PngOptions palette{
        .bits = 4, .interlaced = interlaced, .palette = {1, 2, 3, 200, 100, 50}, .palette_alpha = {9}};
    // Between the head and the rest: a chunk that claims to be larger than the file.
    put(folder, png(landscape(5, 5)).insert(33, std::string("\x1a\0\0\0eXIf", 8)));
    put(folder, png(draw(9, 9, 1, [](int y, int x, int) { return (x + y) % 2; }), palette));
  }
}

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The tests' images that end so.
void put_images(const std::filesystem::path& folder, const std::string& ending) {
  const std::filesystem::path from = std::filesystem::path(TRAINER_SOURCE_DIR) / "tests/fixtures/images";
  for (const auto& entry : std::filesystem::directory_iterator(from))
    if (entry.path().extension() == ending) put(folder, contents_of(entry.path()));
}

/// The tests' files for `trainer import`; of archives also their pickles, which are stored as they are.
void put_foreign(const std::filesystem::path& folder, const std::string& ending) {
  const std::filesystem::path from = std::filesystem::path(TRAINER_SOURCE_DIR) / "tests/fixtures/foreign";
  for (const auto& entry : std::filesystem::directory_iterator(from)) {
    if (entry.path().extension() != ending) continue;
    const std::string bytes = contents_of(entry.path());
    put(folder, bytes);
    const size_t pickle = bytes.find("\x80\x02");
    if (pickle != std::string::npos && pickle > 0) put(folder, bytes.substr(pickle));
  }
}

void put_csvs(const std::filesystem::path& folder) {
  put(folder,
      "\xEF\xBB\xBF"
      "file,label\r\na.png,cat\r\n\"b, \"\"c\"\".png\",\"a\nb\"\r\n");
  put(folder, "file,label\na,b,c\n,\n\"\"\n");
  put(folder, "file,label\n2.png,dog\n1.png,cat\n");
  put(folder, "file,cat,\"dog, old\"\r\n2.png,0,1\r\n./1.png,1,1\r\na/b.jpg,0,0\r\n");
  put(folder, "file,cat,cat\n1.png,1,0\n");
}

/// The first byte says what is wanted of the table.
void put_tables(const std::filesystem::path& folder) {
  for (const char use : {'\0', '\1', '\2', '\3', '\x15', '\x1A'}) {
    const std::string begin(1, use);
    put(folder, begin + "x,k,y\r\n1.5,a,1\r\n-2e3,\"b,\"\"\n\",0\r\n,NA,1\r\n");
    put(folder, begin + "\xEF\xBB\xBFy;z\n\n3;4\nnan;\"\"\n7; 8 \n");
  }
}

/// Two images of 2 x 3 with their labels.
void put_idx(const std::filesystem::path& folder) {
  const std::string images = std::string("\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03", 16) + "pixelsPIXELS";
  const std::string labels("\0\0\x08\x01\0\0\0\x02\x01\x09", 10);
  for (int share = 180; share < 200; ++share) put(folder, static_cast<char>(share) + images + labels);
}

/// Two records of either set, in one file, two, or cut in the middle.
void put_cifar(const std::filesystem::path& folder) {
  const std::string pixels(3072, 'p');
  for (const std::string& labels : {std::string("\x05"), std::string("\x13\x63")}) {
    const std::string record = labels + pixels;
    const char set = static_cast<char>(labels.size() - 1);
    for (const char* share : {"\xff", "\x80", "\x60"})
      put(folder, std::string(1, set) + share + record + record);
  }
}

void put_record(const std::filesystem::path& folder, const ImageSource& source,
                const std::vector<std::string>& transforms = {}) {
  std::string bytes;
  const auto sink = [&](std::span<const std::byte> piece) {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  };
  write_record(source, sink, transforms);
  put(folder, bytes);
}

/// Pixels; images with the names of their classes, read from folders that are put beside `folder`.
void put_records(const std::filesystem::path& folder) {
  for (int64_t samples : {1, 3}) put_record(folder, *make_synthetic(3, Split::train, samples, {2, 3, 4}, 4));
  const std::filesystem::path images = folder.string() + "-images";
  put(images / "ant", png(landscape(5, 6)));
  put(images / "bee", jpeg(landscape(9, 7)));
  for (const char* name : {"ant", "bee"})
    std::filesystem::rename(images / name / "seed0", images / name / "0.png");
  put_record(folder, *open_image_folder({images.string(), kMaxPixels}));
  put_record(folder, *open_image_folder({images.string(), kMaxPixels}),
             {"resize: {size: 8}", "median: {size: 3}"});
}

/// Every recipe and network of the repository, good or bad.
void put_recipes(const std::filesystem::path& folder) {
  for (const char* from : {"configs", "configs/models", "tests/recipe/bad"}) {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(TRAINER_SOURCE_DIR) / from)) {
      std::ifstream file(entry.path(), std::ios::binary);
      if (entry.path().extension() == ".yaml") put(folder, {std::istreambuf_iterator<char>(file), {}});
    }
  }
}

/// Every key, and every name that a component may have.
void add_words(const Fields& fields, std::set<std::string>& words) {
  for (const Fields::Key& key : fields.keys()) {
    words.insert(key.field != nullptr ? key.field->name : key.group->name);
    if (key.group == nullptr) continue;
    if (key.group->section) add_words(*key.group->section, words);
    for (const auto& choice : key.group->choices) {
      if (!words.insert(choice.name).second) continue;
      Fields parameters;
      const std::unique_ptr<Component> component = choice.make();
      component->declare(parameters);
      add_words(parameters, words);
    }
  }
}

/// Dictionary entries for libFuzzer: the bytes of a mutation seldom make a word.
void put_words(const std::filesystem::path& file) {
  std::set<std::string> words = {"templates", "arguments", "repeat", "when", "${index}", "${env:HOME}"};
  add_words(Recipe().fields(), words);
  std::ofstream dictionary(file);
  for (const std::string& word : words) dictionary << '"' << word << "\"\n";
}

/// Headers after the number of bytes of their data, as fuzz_safetensors takes them, and a whole file.
void put_safetensors(const std::filesystem::path& folder) {
  std::vector<StoredTensor> tensors = {{.name = "a.weight", .shape = {2, 3}}, {.name = "n", .dtype = "I64"}};
  tensors.push_back({.name = "h", .dtype = "BF16", .shape = {4}});
  tensors.push_back({.name = "none", .dtype = "F16", .shape = {0, 7}});
  tensors.push_back({.name = "nibbles", .dtype = "F4", .shape = {2, 2}});
  for (const StoredMetadata& metadata : {StoredMetadata{}, StoredMetadata{{"format", "pt"}}}) {
    const std::string header = compose_header(tensors, metadata);
    const auto bytes = static_cast<size_t>(tensors.back().end);
    put(folder, std::string{static_cast<char>(bytes), 0} + header);
    const uint64_t length = header.size();
    put(folder, std::string(reinterpret_cast<const char*>(&length), sizeof length) + header +
                    std::string(bytes, 'x'));
  }
}

/// Ranges of products, and scales with integers.
void put_int8(const std::filesystem::path& folder) {
  Int8Network network{.weights = {.bits = 8}, .method = "entropy", .samples = 512};
  put(folder, to_text(network));
  network.inputs = {{"conv1.weight", {.low = -0.5, .high = 2}}, {"fc.weight", {}}};
  network.in_f32 = {{"conv2.weight", "slower in 8 bits"}};
  put(folder, to_text(network));
  put(folder, std::string("\0\0\x80\x3f\0\0\0\x3f\x3f\xc1\1\0\x80\x7f", 14));
}

void put_manifests(const std::filesystem::path& folder) {
  Manifest manifest{.step = 100, .files = {}};
  for (const char* name : {kModelFile, kOptimizerFile, kStateFile}) {
    put(folder, to_text(manifest));
    manifest.files.push_back({.name = name, .bytes = 12345, .checksum = 0xfedcba9876543210});
    const std::string text = to_text(manifest);
    put(folder, text.substr(0, text.rfind("whole")));  // fuzz_manifest adds the last line
  }
}

void put_states(const std::filesystem::path& folder) {
  MetricsRecord record{.step = 1, .updates = 1, .epoch = 0.5, .split = "train", .loss = 0.1};
  put(folder, to_json(record));
  record.metrics = {{"top1", 0.5}}, record.lr = 0.1, record.memory_bytes = 1, record.skipped = 0,
  record.time = 1e9;
  put(folder, to_json(record));
  RunState state{.epoch = 0.5, .samples = 64, .mathematics = "seed: 1\n", .recipe = "version: 1\n"};
  state.loop = {.step = 1, .loss_scale = 65536, .last = {{"loss", 0.5}}, .best = {{"loss", HUGE_VAL}}};
  state.facts = state.algorithms = state.wall = {{"name", "text"}};
  put(folder, to_json(state));
  TrialRecord trial{.number = 7, .overrides = {"optimizer.lr=0.1"}, .texts = {"0.1", ""}};
  trial.repeats = {{.rungs = {{156, 0.5}}, .end = TrialValue{312, 0.75}, .steps = 312, .seconds = 1.5}};
  trial.failure = TrialFailure{.reason = "memory", .code = 71, .message = "out of memory"};
  put(folder, to_json(trial));
  put(folder,
      R"({"status":"failed","step":1,"steps":2,"pid":3,"host":"h","updated":4,"exit_code":70,"message":"m"})");
}

/// The frames of a handshake, whole and in pieces of three bytes.
void put_frames(const std::filesystem::path& folder) {
  const Secret secret{};
  const HandshakeServer server(secret, 2);
  HandshakeClient client(secret, 1, 2, "host");
  const auto read = [](const std::string& bytes) {
    FrameReader reader;
    reader.put(bytes);
    return reader.next().value();
  };
  const std::string hello = server.hello(), join = client.join(read(hello));
  const std::string welcome = server.welcome(server.admit(read(join)), "first");
  const std::string refuse = encode(FrameKind::refuse, BodyWriter().text("no").take());
  for (const char piece : {'\xff', '\x02'}) {
    for (const std::string& frame : {hello, join, welcome, refuse, hello + join}) put(folder, piece + frame);
  }
}

/// Files of tokenizers as fuzz_tokenizer takes them, and texts for fuzz_encode.
void put_tokenizers(const std::filesystem::path& files, const std::filesystem::path& texts) {
  const std::filesystem::path from = std::filesystem::path(TRAINER_SOURCE_DIR) / "tests/fixtures/tokenizers";
  const std::string text = "\n=\nit's <|endoftext|> 1987 <|x|> \xe8\xaa\x9e\xcc\x88\n\n  the";
  for (const char* name : {"llama3.json", "qwen2.json", "sp_bpe.model", "sp_plain.model"})
    put(files, contents_of(from / name) + text);
  put(files,
      "v" + contents_of(from / "gpt2/vocab.json") + "\n" + contents_of(from / "gpt2/merges.txt") + text);
  put(texts, text);
  put(texts, "kalo miren \xff\xf0\x9f\x98 ss'LL we'll   ");
}

/// With llm.c's headers and without.
void put_shards(const std::filesystem::path& folder) {
  put(folder, std::string("\1\0\2\0\3\0\4\0", 8));
  for (const ShardHeader& kind : {kNarrowShard, kWideShard}) {
    std::vector<int32_t> header(kShardHeaderNumbers);
    header[0] = kind.magic, header[1] = kind.version, header[2] = 3;
    put(folder, std::string(reinterpret_cast<const char*>(header.data()), header.size() * sizeof(int32_t)) +
                    std::string(static_cast<size_t>(3 * kind.width), '\1'));
  }
}

/// The tests' shards that end so.
void put_sample_shards(const std::filesystem::path& folder, const std::string& ending) {
  const std::filesystem::path from = std::filesystem::path(TRAINER_SOURCE_DIR) / "tests/fixtures/shards";
  for (const auto& entry : std::filesystem::directory_iterator(from))
    if (entry.path().extension() == ending) put(folder, contents_of(entry.path()));
}

/// Limits of a container and of a processor's hyperthreads, as Linux writes them.
void put_limits(const std::filesystem::path& folder) {
  put(folder,
      "4:memory:/docker/a\n2:cpu,cpuacct:/docker/a\n0::/b c\n\1"
      "35 31 0:32 /docker /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
      "33 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
      "31 23 0:28 /b\\040c /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
  for (const char* text : {"9223372036854771712\n", "max", "50000 100000\n", "max 100000", "0-3,8\n",
                           "cpu  9 9\ncpu0 10 2 3 400 5 1 2 7 0 0\ncpu1 1 2 3\nintr 1\n"})
    put(folder, text);
}

/// Two readings of all sensors, the second one warmer.
void put_sensors(const std::filesystem::path& folder) {
  put(folder,
      "51000\n\1"
      "2400000\n\1"
      "3\n\1"
      "1500\n\1"
      "1000000\n\1"
      "262000000\n\1"
      "4\n\1"
      "0\n\1"
      "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000000\nfull total=7\n\1"
      "rchar: 9\nread_bytes: 4096\nwrite_bytes: 1\n\1"
      "cpu  9 9\ncpu0 10 2 3 400 5 1 2 7 0 0\ncpu1 1 2 3\nintr 1\n\1"
      "62500\n\1"
      "2300000\n\1"
      "4\n\1"
      "1700\n\1"
      "21000000\n\1"
      "262000000\n\1"
      "5\n\1"
      "1\n\1"
      "some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=7\n\1"
      "rchar: 9\nread_bytes: 8192\nwrite_bytes: 1\n\1"
      "cpu  9 9\ncpu0 90 2 3 500 5 1 2 9 0 0\ncpu1 1 2 3\nintr 1\n");
}

}  // namespace
}  // namespace trainer

int main(int count, char** arguments) {
  if (count != 2) return 64;
  const std::filesystem::path folder = arguments[1];
  trainer::put_jpegs(folder / "jpeg");
  trainer::put_pngs(folder / "png");
  trainer::put_images(folder / "webp", ".webp");
  trainer::put_images(folder / "bmp", ".bmp");
  trainer::put_images(folder / "gif", ".gif");
  trainer::put_images(folder / "tiff", ".tif");
  trainer::put_images(folder / "avif", ".avif");
  trainer::put_images(folder / "jpeg2000", ".jp2");
  trainer::put_images(folder / "jpeg2000", ".j2k");
  trainer::put_foreign(folder / "pth", ".pth");
  trainer::put_foreign(folder / "onnx", ".onnx");
  trainer::put_csvs(folder / "csv");
  trainer::put_tables(folder / "table");
  trainer::put_idx(folder / "idx");
  trainer::put_cifar(folder / "cifar");
  trainer::put_records(folder / "record");
  trainer::put_recipes(folder / "recipe");
  trainer::put_words(folder / "recipe.dict");
  trainer::put_safetensors(folder / "safetensors");
  trainer::put_int8(folder / "int8");
  trainer::put_manifests(folder / "manifest");
  trainer::put_limits(folder / "limits");
  trainer::put_sensors(folder / "sensors");
  trainer::put_states(folder / "state");
  trainer::put_frames(folder / "frames");
  trainer::put_tokenizers(folder / "tokenizer", folder / "encode");
  trainer::put_shards(folder / "shards");
  trainer::put_sample_shards(folder / "tar", ".tar");
  trainer::put_sample_shards(folder / "tfrecord", ".tfrecord");
  return 0;
}
