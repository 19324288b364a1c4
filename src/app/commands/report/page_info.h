// What the pages of this program say of themselves.
#pragma once

#include "report/document.h"

namespace ddp {

report::PageInfo page_info();  // now, with a new nonce

}  // namespace ddp
