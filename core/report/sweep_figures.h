// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/report/sweep_view.h"

namespace trainer {

/// Rules of figures that the style sheet of all pages does not have.
constexpr const char* kSweepStyle = R"(<style>
.hollow circle { fill: none; stroke: var(--c7); }
svg.across polyline[points] { stroke-width: 1.2; } svg.across polyline.faint { opacity: 0.3; }
.across text { fill: var(--text); paint-order: stroke; stroke: var(--page); stroke-width: 4px; stroke-linejoin: round; }
@media (min-width: 481px) { .cards { grid-template-columns: repeat(auto-fill, minmax(11em, 1fr)); } }
@media print { .across { min-width: 0 !important; } }
</style>
)";

// Figures of a sweep's page, each a section. They are empty, or say so, if they have nothing to show.

/// A line for each trial through its parameters to its value of the metric.
std::string across_section(const SweepView& view);
/// The metric over each parameter.
std::string scatter_section(const SweepView& view);
/// How much each parameter decides whether a setting is among the best.
std::string importance_section(const SweepView& view);
/// The metric over steps, of the best trials. Throws Error (exit 74).
std::string trial_curves_section(const SweepView& view);

}  // namespace trainer
