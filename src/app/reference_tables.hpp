#pragma once
// The tables of the README that come from the program itself.

namespace tutti {

/// Markdown on standard output: key, type, default, meaning.
void print_config_reference();
/// Markdown on standard output: layer, required and optional arguments.
void print_layer_reference();

}  // namespace tutti
