// An input is a configuration file. It goes through the reader to the options of a command line. If all of it is
// accepted, the effective configuration that is written from the options must be equivalent.
#include "app/options/config_file.h"
#include "app/options/option_table.h"
#include "nn/models.h"
#include "tests/fuzz/check.h"
#include "tests/fuzz/memory_file.h"

#include <CLI/CLI.hpp>

#include <sstream>
#include <string>

namespace ddp {

std::span<const ModelFile> built_in_models() {  // for the help text; replaces nn/models
  static const ModelFile lenet = {.name = "lenet", .text = ""};
  return {&lenet, 1};
}

namespace {

// Declares the options once, because the declaration takes longer than a test run.
struct CommandLine {
  CommandLine() { declare(app, options); }
  CLI::App app;
  Options options;
};

bool accepts_each_option(const std::string& text) {
  static CommandLine command_line;
  std::istringstream stream(text);
  try {
    command_line.app.parse_from_stream(stream);
    return true;
  } catch (const CLI::Error&) {
    return false;
  }
}

std::string effective(const std::string& text) {
  static MemoryFile file;
  file.assign(text);
  const char* arguments[] = {"ddp_train", "--config", file.path()};
  std::optional<std::string> answer;
  return parse_options(3, arguments, answer).effective_config;
}

void read(const std::string& text) {
  std::istringstream stream(text);
  require(!make_toml_reader()->from_config(stream).empty() && accepts_each_option(text), Exit::usage, "no options");
  const std::string config = effective(text);
  check(effective(config) == config, "an effective configuration says what it came from");
}

}  // namespace
}  // namespace ddp

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  ddp::read_or_refuse(ddp::Exit::usage, [&] { ddp::read(text); });
  return 0;
}
