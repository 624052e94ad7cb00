// A preloaded library that gives each rank a node: its host name, and a folder for relative paths
// as its local disk. TRIREME_TEST_NODES is "FOLDER NODE NODE ...", with the node of each rank; the
// folder of a node is FOLDER/NODE.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>

#include "once.h"

namespace {

using namespace trireme::testing_cli;

struct Node {
  std::string name;

  Node() {
    const char* nodes = std::getenv("TRIREME_TEST_NODES");
    if (!nodes || launched_rank() < 0) return;
    std::istringstream words(nodes);
    std::string folder;
    words >> folder;
    for (int rank = 0; rank <= launched_rank(); ++rank) words >> name;
    folder += "/" + name;
    ::mkdir(folder.c_str(), 0755);
    if (::chdir(folder.c_str()) != 0) std::abort();
  }
};

const Node node;

}  // namespace

// The signature of MPI's function, which the program asks for its host.
extern "C" int MPI_Get_processor_name(char* name, int* length) {
  std::strcpy(name, node.name.c_str());
  *length = static_cast<int>(node.name.size());
  return 0;
}
