// SPDX-License-Identifier: Apache-2.0
#include "core/report/gallery.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/report/html.h"

namespace trainer {
namespace {

/// "12,345"
std::string count_text(int64_t count) {
  std::string text = std::to_string(count);
  for (size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

/// RFC 4648.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k)
      group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k) text += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string image_tag(const std::string& png, const std::string& description) {
  return fmt::format("<img alt=\"{}\" src=\"data:image/png;base64,{}\">", escaped(description), base64(png));
}

std::string tile_html(const GalleryTile& tile) {
  std::string images;
  for (const std::string& png : tile.images)
    images += image_tag(png, &png == &tile.images.front() ? tile.name : "prediction for " + tile.name);
  return fmt::format(
      "<figure class=\"{}\"><div>{}</div><figcaption><b>{}</b>{}<span>{}</span></figcaption></figure>\n",
      tile.is_wrong ? "wrong" : "right", images, escaped(tile.prediction),
      tile.label.empty() ? "" : fmt::format("<i>label: {}</i>", escaped(tile.label)), escaped(tile.name));
}

std::string count_card(const std::string& value, const std::string& name) {
  return fmt::format("<div class=\"card\"><b>{}</b><span>{}</span></div>\n", escaped(value), escaped(name));
}

std::string count_cards(const Gallery& gallery) {
  const int64_t predicted = gallery.samples - gallery.unreadable;
  std::string html = count_card(count_text(gallery.samples), "samples");
  if (gallery.wrong) html += count_card(count_text(*gallery.wrong), "wrong predictions");
  if (gallery.wrong && predicted > 0)
    html += count_card(fmt::format("{:.2f} %", 100 * (1 - static_cast<double>(*gallery.wrong) /
                                                              static_cast<double>(predicted))),
                       "right");
  if (gallery.unreadable > 0) html += count_card(count_text(gallery.unreadable), "could not be read");
  return "<div class=\"cards\">" + html + "</div>\n";
}

/// A part of the tiles under a heading.
std::string tile_section(const std::string& heading, const std::vector<GalleryTile>& tiles, bool wrong) {
  std::string html;
  for (const GalleryTile& tile : tiles) {
    if (tile.is_wrong == wrong) html += tile_html(tile);
  }
  return html.empty() ? "" : fmt::format("<h2>{}</h2>\n<div class=\"tiles\">\n{}</div>\n", heading, html);
}

std::string rest_note(const Gallery& gallery) {
  const auto drawn = static_cast<int64_t>(gallery.tiles.size());
  const int64_t predicted = gallery.samples - gallery.unreadable;
  if (drawn >= predicted) return "";
  const int64_t drawn_wrong = std::ranges::count_if(gallery.tiles, &GalleryTile::is_wrong);
  std::string text = fmt::format("{} of {} samples are drawn", count_text(drawn), count_text(predicted));
  if (gallery.wrong && *gallery.wrong > drawn_wrong) {
    text += fmt::format(": of the wrong predictions the {} most certain ones", count_text(drawn_wrong));
  } else if (gallery.wrong && drawn_wrong > 0) {
    text += ": all wrong predictions, and the first of the others";
  } else {
    text += ": the first ones";
  }
  return fmt::format("<p class=\"note\">{}.</p>\n", escaped(text));
}

}  // namespace

std::string gallery_page(const Gallery& gallery) {
  return html_page(gallery.title,
                   fmt::format("<h1>{}</h1>\n<p class=\"sub\">weights: {}</p>\n", escaped(gallery.title),
                               escaped(gallery.weights)) +
                       count_cards(gallery) + rest_note(gallery) +
                       tile_section("Wrong, the most certain first", gallery.tiles, true) +
                       tile_section(gallery.wrong ? "Right" : "Samples", gallery.tiles, false));
}

}  // namespace trainer
