// All options, each declared in one row: option_table.cpp, option_table_data.cpp,
// option_table_optimizer.cpp and option_table_machine.cpp.
#pragma once

#include "app/options/option_row.h"

#include <vector>

namespace ddp {

// In the order of --help, launch/README.md and config.toml.
const std::vector<OptionGroup>& option_table();

// Calls visit(row) for each row, in the same order.
template <class Visit>
void for_each_row(const Visit& visit) {
  for (const OptionGroup& group : option_table())
    for (const OptionRow& row : group.rows) visit(row);
}

// Declares each row with its help and its default, and --config, to `app`. Parsing then writes to `options`.
void declare(CLI::App& app, Options& options);

// Whether the learning rate depends on --epochs.
bool rate_depends_on_epochs(const Options& options);

// The groups of the other files. complete_schedule() runs after parsing: it sets the fields of the schedule that depend
// on options of other groups.
OptionGroup data_options();
OptionGroup optimizer_options();
OptionGroup learning_rate_options();
void complete_schedule(Options& options);
OptionGroup machine_options();

}  // namespace ddp
