// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>

struct jpeg_decompress_struct;

namespace trainer {

/// Reads a baseline JPEG's Huffman codes in libjpeg's place, which takes most of the time of decoding an
/// image. One look-up gives code, run and value; libjpeg needs three steps. Everything else remains
/// libjpeg's.
class JpegScan {
 public:
  JpegScan();
  ~JpegScan();

  /// After jpeg_start_decompress; does nothing if the image is not baseline, or has several scans. Must
  /// outlive the decompression. Damage is reported through libjpeg's error_exit.
  void take_over(jpeg_decompress_struct& info);

 private:
  struct Decoder;
  std::unique_ptr<Decoder> decoder_;
};

}  // namespace trainer
