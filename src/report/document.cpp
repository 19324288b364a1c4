#include "report/document.h"

#include "report/assets.h"
#include "report/text.h"

#include <fmt/format.h>

namespace ddp::report {

std::string section(const std::string& title, const std::string& content) {
  return content.empty() ? "" : fmt::format("<section><h2>{}</h2>\n{}</section>\n", title, content);
}

std::string document(const std::string& title, const std::string& body, const PageInfo& info) {
  std::string text = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  text += fmt::format("{}\n", kMarkOfPages);
  text += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'nonce-{0}'; script-src "
      "'nonce-{0}'; base-uri 'none'; form-action 'none'\">\n",
      info.nonce);
  text += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n";
  text += "<meta name=\"color-scheme\" content=\"light dark\">\n";
  text += fmt::format("<title>{}</title>\n<style nonce=\"{}\">\n{}</style>\n</head>\n<body>\n<main>\n", title,
                      info.nonce, kStyle);
  text += body;
  text += fmt::format(
      "<footer>made by ddp_train {} on {}</footer>\n</main>\n<script nonce=\"{}\">\n{}</script>\n</body>\n</html>\n",
      html(info.version), html(info.time), info.nonce, kScript);
  return text;
}

}  // namespace ddp::report
