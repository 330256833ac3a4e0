#pragma once
// The tables of jobs/configuration.md and jobs/options.md that come from the program itself.

namespace tutti {

/// Markdown on standard output: key, type, default, meaning.
void print_config_reference();
/// Markdown on standard output: layer, required and optional arguments.
void print_layer_reference();
/// Options of other trainers and what they are here.
void print_option_reference();

}  // namespace tutti
