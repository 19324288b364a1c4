#include "train/agree_on_exclusions.h"

#include "comm/gather_host.h"
#include "core/error.h"

#include <sstream>
#include <string>
#include <utility>

namespace ddp {
namespace {

std::string text_of(const std::vector<BrokenPicture>& pictures) {
  std::string text;
  for (const BrokenPicture& one : pictures)
    text += fmt::format("{} {} {} {} {}", one.picture, one.bytes, one.step, one.reason.size(), one.reason);
  return text;
}

void add_from(const std::string& text, std::vector<BrokenPicture>& pictures) {
  std::istringstream in(text);
  size_t length = 0;
  for (BrokenPicture one; in >> one.picture >> one.bytes >> one.step >> length;) {
    in.ignore(1);
    one.reason.resize(length);
    in.read(one.reason.data(), static_cast<std::streamsize>(length));
    pictures.push_back(one);
  }
}

}  // namespace

std::vector<BrokenPicture> agree_on_exclusions(Exclusions& exclusions, int64_t step, Communicator& communicator) {
  if (!communicator.any(!exclusions.found().empty())) return {};
  std::vector<BrokenPicture> all;
  for (const std::string& text : gather_host(communicator, text_of(exclusions.found()))) add_from(text, all);
  for (BrokenPicture& one : all)
    if (step > 0) one.step = step;
  return exclusions.agree(std::move(all));
}

}  // namespace ddp
