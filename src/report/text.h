// Text and numbers of the page.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace ddp::report {

// Text of a stranger for the content or a quoted attribute of an HTML element: printable(), and without < > & " '.
std::string html(std::string_view text);

// As html(), at most `most` bytes of the text, then "...".
std::string short_html(std::string_view text, size_t most = 60);

// As html(), at most `most` characters of the text, then an ellipsis: for a drawing.
std::string label_html(std::string_view text, size_t most);

// A number as people read it: whole numbers and large ones with commas, others with at most `digits` significant
// digits. "–" for what is not finite.
std::string number(double value, int digits = 4);

// "12.3 %" of a share.
std::string percent(double share);

// A coordinate of SVG: at most one digit after the point.
std::string coordinate(double value);

// A number of a JSON text; null for what is not finite.
std::string json_number(double value, int digits = 5);

// A JSON text for a string, which also may stand in a script element.
std::string json_string(std::string_view text);

}  // namespace ddp::report
