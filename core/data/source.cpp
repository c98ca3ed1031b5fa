// SPDX-License-Identifier: Apache-2.0
#include "core/data/source.h"

#include "core/data/images/resample.h"

namespace trainer {

void DataSource::read_view(int64_t index, const ViewChooser& chooser, Image& into) const {
  read(index, into);
  resample(into, chooser.choose(into.height, into.width));
}

}  // namespace trainer
