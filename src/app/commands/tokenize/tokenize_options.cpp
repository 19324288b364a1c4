#include "app/commands/tokenize/tokenize_options.h"

#include "app/options/parse_command.h"
#include "core/error.h"

#include <CLI/CLI.hpp>

namespace ddp {

TokenizeOptions parse_tokenize_options(std::span<const std::string> arguments, std::optional<std::string>& answer) {
  TokenizeOptions options;
  CLI::App app(
      "Encodes texts as tokens: writes train.bin, val.bin and vocabulary.txt, which a training takes by --data-path.",
      "ddp_train tokenize");
  app.add_option("TEXT", options.texts,
                 "text files in UTF-8, each a document; of a folder all files *.txt below it, by path")
      ->required();
  app.add_option("--vocabulary", options.vocabulary,
                 "GPT-2's file vocab.bpe, or another merges.txt in its form; bytes: a token for each byte")
      ->required();
  app.add_option("--output-dir", options.output_folder, "folder for the files, which must not exist in it")->required();
  app.add_option("--val-split", options.val_split, "share of the text, at its end, that goes to val.bin; 0: none")
      ->capture_default_str();
  if (!parse_command(app, arguments, answer)) return options;
  require(options.val_split >= 0 && options.val_split <= 0.9, Exit::usage, "--val-split {}: give a share from 0 to 0.9",
          options.val_split);
  return options;
}

}  // namespace ddp
