// The C interface: plans and searches, as JSON.
#include "config/run_rules.h"
#include "library/c_handles.h"
#include "plan/plan_answer.h"
#include "plan/search_answer.h"

using namespace trireme::c;

trireme_status trireme_plan(const trireme_config* config, int64_t ranks, const char* machine,
                            const char* memory, char** json) {
  return guarded([&] {
    trireme::Config values = config->values();
    const trireme::PlanRequest request{.ranks = ranks,
                                       .memory = memory ? memory : "",
                                       .machine = machine ? machine : "",
                                       .config_file = {}};
    *json = allocate_text(to_json_text(answer_plan(values, request)));
  });
}

trireme_status trireme_search(const trireme_config* config, int64_t ranks, const char* machine,
                              const char* memory, char** json) {
  return guarded([&] {
    trireme::Config values = config->values();
    validate(values);
    assume_vocabulary(values);
    trireme::SearchRequest request;
    request.ranks = ranks;
    if (memory && *memory) request.memory = trireme::parse_byte_size(memory, "memory");
    const trireme::Machine target = machine_for(values, machine ? machine : "");
    *json = allocate_text(to_json_text(answer_search(values, target, request), values));
  });
}
