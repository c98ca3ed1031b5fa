// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace trainer {

/// The style sheet of a page. The colours of curves can be distinguished by people with red-green colour
/// blindness, and in grey by their dashes.
constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --page: #fff; --text: #1a1a1a; --soft: #5c6066; --line: #dcdfe3; --panel: #f5f6f8;
  --best: #e3f3e6; --bad: #b3261e; --bad-page: #fdeceb; --warn: #8a3b00; --cell: 0, 96, 168;
  --c0: #0060a8; --c1: #c65102; --c2: #2a7f3f; --c3: #7a3fa0; --c4: #8c6d00; --c5: #c2185b; --c6: #00838f; --c7: #555; }
@media screen and (prefers-color-scheme: dark) { :root { --page: #15181c; --text: #e6e8ea; --soft: #9aa1a9; --line: #343a41;
  --panel: #1f242a; --best: #1d3a26; --bad: #ff8a80; --bad-page: #3b1b1a; --warn: #ffb074; --cell: 90, 170, 240;
  --c0: #5ab0f5; --c1: #ff9a52; --c2: #66c47d; --c3: #c39be6; --c4: #d9b84a; --c5: #f48fb1; --c6: #4dd0e1; --c7: #b0b0b0; } }
* { box-sizing: border-box; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 76em; margin: 1.5em auto; padding: 0 1.2em; color: var(--text);
  background: var(--page); }
h1 { font-size: 1.6em; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.15em; margin: 1.8em 0 0.5em; }
.sub { color: var(--soft); margin: 0.1em 0 1em; overflow-wrap: anywhere; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 8.6em), 1fr)); gap: 0.6em; }
.card { background: var(--panel); border-radius: 8px; padding: 0.6em 0.9em; min-width: 0; break-inside: avoid; }
.card b { display: block; font-size: 1.35em; font-weight: 600; line-height: 1.25; overflow-wrap: anywhere; }
.card span { color: var(--soft); font-size: 0.87em; overflow-wrap: anywhere; }
.error { border: 2px solid var(--bad); background: var(--bad-page); border-radius: 8px; padding: 0.7em 1em; margin: 1em 0; }
.error b { color: var(--bad); } .error pre { background: none; padding: 0; margin: 0.3em 0 0; font-size: 13px; }
.keys { margin: 0.8em 0; line-height: 1.9; } .key { border: 1px solid var(--line); border-radius: 6px; padding: 0.1em 0.5em; margin-right: 0.3em;
  display: inline-block; max-width: 100%; line-height: 1.4; font-size: 0.87em; color: var(--soft); overflow-wrap: anywhere; } .key b { color: var(--text); font-weight: 600; }
.note { color: var(--warn); } .marks { color: var(--soft); font-size: 0.9em; } .marks svg { vertical-align: middle; }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 27em), 1fr)); gap: 0.8em 1.6em; }
.charts.small { grid-template-columns: repeat(auto-fit, minmax(min(100%, 15em), 1fr)); margin-top: 0.8em; }
svg { display: block; width: 100%; height: auto; break-inside: avoid; } svg.sample { display: inline; width: 28px; }
svg text { font: 11.5px system-ui, sans-serif; fill: var(--soft); } svg text.title { font-size: 13.5px; font-weight: 600; fill: var(--text); }
svg polyline[points] { fill: none; stroke-width: 1.7; stroke-linejoin: round; } svg polyline.faint { stroke-width: 1; opacity: 0.35; }
svg line { stroke-width: 2; } svg line.grid, svg line.tick { stroke: var(--line); stroke-width: 1; } svg line.tick { stroke: var(--soft); }
svg circle { stroke: none; } svg line.mark { stroke-width: 1.3; }
svg .best { stroke: var(--c2); } svg .resume { stroke: var(--soft); stroke-dasharray: 5 3; }
svg .stop { stroke: var(--bad); } svg .drop { stroke: var(--c3); stroke-dasharray: 2 3; }
.c0 { stroke: var(--c0); fill: var(--c0); } .c1 { stroke: var(--c1); fill: var(--c1); } .c2 { stroke: var(--c2); fill: var(--c2); }
.c3 { stroke: var(--c3); fill: var(--c3); } .c4 { stroke: var(--c4); fill: var(--c4); } .c5 { stroke: var(--c5); fill: var(--c5); }
.c6 { stroke: var(--c6); fill: var(--c6); } .c7 { stroke: var(--c7); fill: var(--c7); }
.wide { overflow-x: auto; max-width: 100%; } table { border-collapse: collapse; margin: 0.4em 0; font-size: 13.5px; }
thead { display: table-header-group; } th { color: var(--soft); font-weight: 600; }
th, td { padding: 0.2em 0.8em 0.2em 0; text-align: left; border-bottom: 1px solid var(--line); vertical-align: top; }
td { max-width: 26em; overflow-wrap: break-word; } td:first-child { min-width: 6em; } td.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
th.n { text-align: right; } tr { break-inside: avoid; } tr.best td { background: var(--best); font-weight: 600; }
.beside { display: flex; flex-wrap: wrap; gap: 0 2.5em; align-items: flex-start; } .beside > div { min-width: 0; max-width: 100%; }
table.matrix td:first-child { min-width: 0; } table.matrix th, table.matrix td { padding: 0.25em 0.45em; text-align: right; border: 1px solid var(--page); white-space: nowrap; }
table.matrix td { font-variant-numeric: tabular-nums; } table.matrix .axis { text-align: center; color: var(--text); }
table.matrix th.name { max-width: 9em; overflow: hidden; text-overflow: ellipsis; }
table.matrix th.above { max-width: none; vertical-align: bottom; } table.matrix th.above span { writing-mode: vertical-rl;
  transform: rotate(180deg); max-height: 9em; overflow: hidden; text-overflow: ellipsis; }
table.matrix .down { writing-mode: vertical-rl; transform: rotate(180deg); text-align: center; }
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(46%, 10em), 1fr)); gap: 0.8em; }
figure { margin: 0; background: var(--panel); border: 2px solid transparent; border-radius: 8px; padding: 0.5em; min-width: 0; break-inside: avoid; }
figure.wrong { border-color: var(--bad); } figure.wrong b { color: var(--bad); } figure div { display: flex; gap: 0.3em; }
figure img { flex: 1; min-width: 0; width: 100%; aspect-ratio: 1; object-fit: contain; image-rendering: pixelated; }
figcaption { font-size: 0.87em; line-height: 1.35; margin-top: 0.3em; } figcaption b, figcaption i, figcaption span { display: block; overflow-wrap: anywhere; }
figcaption i { font-style: normal; } figcaption span { color: var(--soft); font-size: 0.9em; }
details:first-of-type { margin-top: 1em; } details { border-top: 1px solid var(--line); padding: 0.5em 0; } summary { cursor: pointer; font-weight: 600; }
pre { background: var(--panel); padding: 0.8em 1em; font-size: 12.5px; white-space: pre-wrap; overflow-wrap: anywhere; }
footer { color: var(--soft); font-size: 0.85em; margin: 2em 0 1em; }
@media (max-width: 480px) { body { padding: 0 0.7em; margin-top: 0.8em; } svg text { font-size: 14px; } svg text.title { font-size: 16px; }
  .charts.small svg text { font-size: 11px; } .charts.small svg text.title { font-size: 12.5px; }
  .cards { grid-template-columns: repeat(2, 1fr); } .card b { font-size: 1.25em; } }
@media print { :root { color-scheme: light; } body { margin: 0; max-width: none; font-size: 10pt; } .charts { grid-template-columns: 1fr 1fr; }
  .charts.small { grid-template-columns: 1fr 1fr 1fr; } .card, pre { border: 1px solid #ccc; }
  .wide { overflow: visible; } table { font-size: 7.5pt; } th, td { padding-right: 0.5em; } }
)";

}  // namespace trainer
