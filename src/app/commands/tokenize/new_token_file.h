// A file of tokens that a command creates, in the format of llm.c (its dev/data/data_common.py, write_datafile): 256
// int32, which are a magic number, the version, the number of tokens, and zeros; then the tokens. They are uint16 where
// the vocabulary fits, as for GPT-2, else uint32, as for Llama 3.
#pragma once

#include "core/durable_file.h"

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

namespace ddp {

class NewTokenFile {
 public:
  // vocabulary_size: tokens are less. Throws as NewFile.
  NewTokenFile(const std::filesystem::path& path, int64_t vocabulary_size);

  void write(std::span<const int32_t> tokens);  // appends; Error(Exit::data) above 2^31 - 1 tokens
  int64_t tokens() const { return tokens_; }

  NewFile& finish();  // writes the number of tokens; the caller keeps the file

 private:
  const std::string name_;
  const bool wide_;
  NewFile file_;
  int64_t tokens_ = 0;
};

}  // namespace ddp
