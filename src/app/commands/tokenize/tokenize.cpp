#include "app/commands/tokenize/tokenize.h"

#include "app/commands/tokenize/tokenize_options.h"
#include "app/commands/tokenize/write_tokens.h"
#include "comm/mpi/launcher.h"
#include "core/log.h"

#include <optional>

namespace ddp {

Exit tokenize(std::span<const std::string> arguments, std::FILE* out) {
  const Environment environment = environment_of_process();
  if (!first_at_launch(environment)) return Exit::done;
  std::optional<std::string> answer;
  const TokenizeOptions options = parse_tokenize_options(arguments, answer);
  if (!answer) require_one_rank(environment, "tokenize");
  write_output(out, answer ? *answer : write_tokens(options), "the output");
  return Exit::done;
}

}  // namespace ddp
