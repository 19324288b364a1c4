// All options, each declared in one row: option_table.cpp, option_table_data.cpp,
// option_table_optimizer.cpp and option_table_machine.cpp.
#pragma once

#include "app/options/option_row.h"

#include <span>
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

// A row that another command has too, with another help, or with its own where that is null.
struct BorrowedRow {
  const char* name;
  const char* help = nullptr;
};
// Declares only these rows, in their order in the table, without --config.
void declare(CLI::App& app, Options& options, std::span<const BorrowedRow> rows);

// Checks the options of these rows, or of all rows where there are none, against their conditions and for conflicts.
// `kept`: values that a resumed run has kept. Throws Error(Exit::usage).
void require_rows_fit(const CLI::App& app, const Options& options, std::span<const BorrowedRow> rows = {},
                      const NamedValues& kept = {});

// Whether there are evaluations.
bool evaluates(const Options& options);

// Whether the learning rate depends on --epochs.
bool rate_depends_on_epochs(const Options& options);

// Whether it depends on the evaluations.
bool rate_depends_on_evaluations(const Options& options);

// The groups of the other files. complete_schedule() runs after parsing: it sets the fields of the schedule that depend
// on options of other groups.
OptionGroup training_options();
OptionGroup data_options();
OptionGroup optimizer_options();
OptionGroup learning_rate_options();
void complete_schedule(Options& options);
OptionGroup machine_options();

}  // namespace ddp
