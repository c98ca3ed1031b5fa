// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/shard_format.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/data_error.h"
#include "core/data/file_pattern.h"
#include "core/data/images/decode.h"
#include "core/data/images/image_folder.h"
#include "core/data/images/packed.h"
#include "core/data/section.h"

namespace trainer {
namespace {

std::span<const uint8_t> as_bytes_of_file(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

class ShardSource final : public ImageSource {
 public:
  ShardSource(std::shared_ptr<const ShardSet> set, int64_t max_pixels, std::vector<std::string> class_names)
      : set_(std::move(set)), max_pixels_(max_pixels), class_names_(std::move(class_names)) {
    const int64_t names = static_cast<int64_t>(class_names_.size()), highest = set_->highest_label();
    if (names > 0 && highest >= names)
      throw Error(ExitCode::data,
                  fmt::format("{}: expected labels below {}, the number of class names in it, found {}",
                              one_line(set_->shard(set_->sample(0)).path), names, highest));
  }

  int64_t size() const override { return set_->size(); }
  Shape sample_shape() const override { return kImageShape; }
  int64_t classes() const override {
    return class_names_.empty() ? std::max(int64_t{set_->highest_label()} + 1, int64_t{1})
                                : static_cast<int64_t>(class_names_.size());
  }
  std::vector<std::string> class_names() const override { return class_names_; }
  int64_t resident_bytes() const override { return set_->resident_bytes(); }
  bool is_encoded() const override { return true; }
  std::optional<int32_t> label_of(int64_t index) const override {
    if (set_->highest_label() == kNoShardLabel) return std::nullopt;
    return label(set_->sample(index));
  }

  void check_labels(const AllowedLabels& allowed) const override {
    for (const ShardSample& sample : set_->samples()) {
      const auto refuse = [&](const std::string& expected, const std::string& found) {
        fail_in_file(set_->shard(sample).path, sample.start,
                     fmt::format("{}, for {}", expected, set_->name_of(sample)), found);
      };
      if (sample.label == kNoShardLabel) refuse("a label: " + set_->layout().label_place(), "none");
      if (!allowed.holds(sample.label)) refuse(allowed.text(), std::to_string(sample.label));
    }
  }

  void expect(int64_t first, int64_t count) const override { set_->expect(first, count); }

  void read_encoded(int64_t index, Image& into) const override {
    const ShardSample& sample = set_->sample(index);
    into.label = label(sample);
    use_image(sample, [&](std::span<const uint8_t> file) { into.encoded.assign(file.begin(), file.end()); });
  }

  void read(int64_t index, Image& into) const override { read_view(index, WholeView(), into); }

  void read_view(int64_t index, const ViewChooser& chooser, Image& into) const override {
    const ShardSample& sample = set_->sample(index);
    use_image(sample, [&](std::span<const uint8_t> file) { decode_image(file, chooser, max_pixels_, into); });
    into.label = label(sample);
  }

 private:
  static int32_t label(const ShardSample& sample) { return std::max(sample.label, 0); }

  /// Pages that were lost read as zeros: a changed shard is no unreadable sample.
  template <class Use>
  void use_image(const ShardSample& sample, const Use& use) const {
    std::optional<std::string> problem;
    try {
      use(as_bytes_of_file(set_->image(sample)));
    } catch (const DecodeError& error) {
      problem = error.what();
    }
    set_->require_unchanged(sample);
    if (problem) throw UnreadableSampleError({set_->name_of(sample), *problem});
  }

  std::shared_ptr<const ShardSet> set_;
  int64_t max_pixels_;
  std::vector<std::string> class_names_;
};

}  // namespace

std::unique_ptr<ImageSource> open_shards(std::shared_ptr<const ShardSet> set, int64_t max_pixels,
                                         std::vector<std::string> class_names) {
  return std::make_unique<ShardSource>(std::move(set), max_pixels, std::move(class_names));
}

std::optional<Shape> ShardFormat::shape() const {
  return kImageShape;
}

std::vector<std::string> ShardFormat::files(const std::string& path, Split) const {
  return files_of_pattern(path, ending_);
}

std::vector<std::string> ShardFormat::missing(const std::string& path, Split) const {
  return missing_of_pattern(path);
}

std::shared_ptr<ShardSet> ShardFormat::set_of(const DataSection& section,
                                              const SourceRequest& request) const {
  const std::vector<std::string> paths = files(section.path(request.split), request.split);
  std::shared_ptr<ShardSet>& set = sets_[paths];
  if (!set) set = std::make_shared<ShardSet>(layout(), paths, request.threads);
  return set;
}

std::unique_ptr<DataSource> ShardFormat::open(const DataSection& section,
                                              const SourceRequest& request) const {
  const std::shared_ptr<ShardSet> set = set_of(section, request);
  set->unpack();
  return open_shards(set, section.images.max_pixels, class_names(section.path(request.split)));
}

ShardFacts ShardFormat::facts_of(const std::string& path) const {
  const std::vector<std::string> paths = files(path, Split::train);
  return paths.empty() ? ShardFacts() : layout()->facts_of(paths.front());
}

std::vector<std::string> ShardFormat::class_names(const std::string& path) const {
  return facts_of(path).class_names;
}

SourceInfo ShardFormat::peek(const DataSection& section, const SourceRequest& request) const {
  const std::shared_ptr<ShardSet> set = set_of(section, request);
  const std::string path = section.path(request.split);
  const ShardFacts facts = facts_of(path);
  SourceInfo info{.size = set->size(),
                  .shape = kImageShape,
                  .classes = std::nullopt,  // the highest label may be that of a class before the last
                  .resident_bytes = set->resident_bytes(),
                  .is_shared = section.path(Split::train) == section.path(Split::val)};
  if (!facts.class_names.empty()) info.classes = static_cast<int64_t>(facts.class_names.size());
  info.warning = repeated_transforms(facts.transforms, section, request.split);
  if (request.wants_labels) info.labels = labels_of(*open_shards(set, section.images.max_pixels));
  return info;
}

}  // namespace trainer
