// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/synthetic.h"
#include "core/data/formats.h"
#include "core/data/tables/synthetic.h"
#include "core/data/tokens/synthetic.h"

namespace trainer {
namespace {

/// Samples that are made up, of the kind and shape that the network reads.
class SyntheticFormat final : public DataFormat {
 public:
  void declare(Fields& fields) override {
    fields.section("synthetic", "sizes of the generated sets of format synthetic", [this](Fields& section) {
      section.add("train_samples", &train_samples_, "training samples").at_least(1).at_most(2147483647);
      section.add("val_samples", &val_samples_, "validation samples").at_least(1).at_most(2147483647);
    });
  }

  std::vector<InputKind> kinds() const override {
    return {InputKind::pixels, InputKind::tokens, InputKind::features, InputKind::series};
  }
  bool reads_files() const override { return false; }
  bool gives_label_maps() const override { return true; }
  bool gives_label_sets() const override { return true; }

  std::unique_ptr<DataSource> open(const DataSection&, const SourceRequest& request) const override {
    const int64_t size = size_of(request.split);
    if (request.network_kind == InputKind::tokens) {
      return make_synthetic_tokens(request.seed, request.split, size, request.network_shape[0],
                                   request.network_classes);
    }
    if (is_of_table(request.network_kind)) {
      return make_synthetic_features(request.seed, request.split, size, request.network_shape,
                                     request.network_classes, request.wants_label_sets);
    }
    return make_synthetic(request.seed, request.split, size, request.network_shape, request.network_classes,
                          request.wants_label_sets);
  }
  SourceInfo peek(const DataSection&, const SourceRequest& request) const override {
    SourceInfo info{.size = size_of(request.split),
                    .shape = request.network_shape,
                    .classes = request.network_classes,
                    .has_label_sets = request.wants_label_sets};
    if (request.network_kind == InputKind::tokens)
      info.label_bytes = info.size * request.network_shape[0];  // each token counts as one
    if (is_of_table(request.network_kind) && request.wants_numbers && request.targets > 0)
      info.targets =
          synthetic_spread(request.seed, request.split, info.size, request.network_shape, request.targets);
    return info;
  }

 private:
  int64_t size_of(Split split) const { return split == Split::train ? train_samples_ : val_samples_; }

  int64_t train_samples_ = 6400, val_samples_ = 1280;
};

}  // namespace

Registered<DataFormat> synthetic_format() {
  return {"synthetic", "no files", [] { return std::make_unique<SyntheticFormat>(); }};
}

}  // namespace trainer
