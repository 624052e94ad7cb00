// The files of src/view/page, as embedded by CMake in page_files.inc.
#include "view/page.h"

#include <string_view>

#include "base/error.h"

namespace trireme {
namespace {

#include <page_files.inc>

void replace(std::string& text, std::string_view what, std::string_view by) {
  const std::size_t at = text.find(what);
  TRIREME_CHECK(at != std::string::npos);
  text.replace(at, what.size(), by);
}

// Escapes JSON for a script element, so that its text cannot close the element.
std::string inside_script(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

}  // namespace

std::string page_html() {
  return html;
}
std::string page_css() {
  return css;
}
std::string page_script() {
  return script;
}

std::string page_alone(const std::string& data) {
  std::string page = html;
  replace(page, "<link rel=\"stylesheet\" href=\"view.css\">",
          "<style>\n" + page_css() + "</style>");
  replace(page, "<script src=\"view.js\"></script>",
          "<script type=\"application/json\" id=\"data\">" + inside_script(data) +
              "</script>\n<script>\n" + page_script() + "</script>");
  return page;
}

}  // namespace trireme
