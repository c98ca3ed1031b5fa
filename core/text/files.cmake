# SPDX-License-Identifier: Apache-2.0
trainer_library(core/text
  USES base
  PRIVATE PkgConfig::PCRE2 PkgConfig::UTF8PROC ${SENTENCEPIECE_LIBRARY} protozero::protozero fmt::fmt)
