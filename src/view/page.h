// The files of the page, which are part of the program.
#pragma once

#include <string>

namespace trireme {

std::string page_html();
std::string page_css();
std::string page_script();

// The page in one file, with data for it (JSON) inside.
std::string page_alone(const std::string& data);

}  // namespace trireme
