// The page's files, embedded in the program.
#pragma once

#include <string>

namespace trireme {

std::string page_html();
std::string page_css();
std::string page_script();

// Returns the page as a single file with its data (JSON) embedded.
std::string page_alone(const std::string& data);

}  // namespace trireme
