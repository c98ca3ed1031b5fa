// SPDX-License-Identifier: Apache-2.0
#include "core/data/images/jpeg_scan.h"

#include <cstdio>

// After <cstdio>: it uses types from it without including it.
#include <jerror.h>
#include <jpeglib.h>
// After <jpeglib.h>: declarations shared by libjpeg's parts.
#include <jpegint.h>

#include "core/data/images/jpeg_entropy.h"

namespace trainer {

/// libjpeg's entropy decoders begin with a public part; the rest is their own.
struct JpegScan::Decoder {
  jpeg_entropy_decoder shared{};
  JpegStream stream;
  std::array<JpegTable, NUM_HUFF_TBLS> dc, ac;
  std::array<int, MAX_COMPS_IN_SCAN> last_dc{};
  unsigned until_restart = 0;
  JDIMENSION column = 0;  // of the next group of blocks
  int next_restart = 0;

  static boolean decode_mcu(j_decompress_ptr info, JBLOCKROW* blocks);
  void restart(j_decompress_ptr info);
};

JpegScan::JpegScan() : decoder_(std::make_unique<Decoder>()) {}
JpegScan::~JpegScan() = default;

void JpegScan::Decoder::restart(j_decompress_ptr info) {
  if (!stream.restart(next_restart)) ERREXIT(info, JWRN_HIT_MARKER);
  next_restart = (next_restart + 1) % 8;
  until_restart = info->restart_interval;
  last_dc.fill(0);
}

/// libjpeg has set the blocks to zero. It reads neither blocks without a pointer nor those outside the
/// window.
boolean JpegScan::Decoder::decode_mcu(j_decompress_ptr info, JBLOCKROW* blocks) {
  auto& decoder = *reinterpret_cast<Decoder*>(info->entropy);
  if (info->restart_interval != 0) {
    if (decoder.until_restart == 0) decoder.restart(info);
    --decoder.until_restart;
  }
  const JDIMENSION column = decoder.column;
  decoder.column = column + 1 == info->MCUs_per_row ? 0 : column + 1;
  const bool wanted =
      blocks != nullptr && column >= info->master->first_iMCU_col && column <= info->master->last_iMCU_col;
  for (int i = 0; i < info->blocks_in_MCU; ++i) {
    const auto component = static_cast<size_t>(info->MCU_membership[i]);
    const jpeg_component_info& tables = *info->cur_comp_info[component];
    decoder.stream.prepare();
    JpegBits& bits = decoder.stream.bits;
    const JpegTable& dc = decoder.dc[static_cast<size_t>(tables.dc_tbl_no)];
    const JpegTable& ac = decoder.ac[static_cast<size_t>(tables.ac_tbl_no)];
    int& last_dc = decoder.last_dc[component];
    const bool intact = wanted ? decode_jpeg_block(bits, dc, ac, last_dc, *blocks[i])
                               : skip_jpeg_block(bits, dc, ac, last_dc);
    if (decoder.stream.is_overrun()) ERREXIT(info, JWRN_HIT_MARKER);
    if (!intact) ERREXIT(info, JWRN_HUFF_BAD_CODE);
  }
  return TRUE;
}

void JpegScan::take_over(jpeg_decompress_struct& info) {
  if (info.progressive_mode || info.arith_code || jpeg_has_multiple_scans(&info)) return;
  std::array<bool, NUM_HUFF_TBLS> has_dc{}, has_ac{};  // components share tables
  for (int i = 0; i < info.comps_in_scan; ++i) {
    const auto dc = static_cast<size_t>(info.cur_comp_info[i]->dc_tbl_no);
    const auto ac = static_cast<size_t>(info.cur_comp_info[i]->ac_tbl_no);
    const JHUFF_TBL& dc_code = *info.dc_huff_tbl_ptrs[dc];
    const JHUFF_TBL& ac_code = *info.ac_huff_tbl_ptrs[ac];
    if (!has_dc[dc] && !decoder_->dc[dc].build({dc_code.bits, dc_code.huffval}, false)) return;
    if (!has_ac[ac] && !decoder_->ac[ac].build({ac_code.bits, ac_code.huffval}, true)) return;
    has_dc[dc] = has_ac[ac] = true;
  }
  const uint8_t* data = info.src->next_input_byte;
  decoder_->stream.open(data, data + info.src->bytes_in_buffer);
  decoder_->until_restart = info.restart_interval;
  decoder_->shared = *info.entropy;
  decoder_->shared.decode_mcu = Decoder::decode_mcu;
  info.entropy = &decoder_->shared;
}

}  // namespace trainer
