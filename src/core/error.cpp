#include "core/error.h"

namespace ddp {

void fail_expectation(const char* file, int line, const char* condition) {
  fail(Exit::internal, "{}:{}: expected {}", file, line, condition);
}

}  // namespace ddp
