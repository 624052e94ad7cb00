// What stands between a launch script and its training: wrappers, files that the queue makes, what
// only the nodes of the job have, launchers' own ways to name devices, programs of forks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config.h"
#include "importers/megatron/script_folder.h"

namespace trireme::megatron {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

using Wrappers = ScriptFolder;

// Not about whose GPUs they are.
const std::string gpu = "#SBATCH --gres=gpu:a100:2\n";

auto about(const char* text) {
  return Contains(Field(&Note::text, HasSubstr(text)));
}

TEST_F(Wrappers, LaunchersFindThemInTheCurrentFolder) {
  write("launch.sh", "#!/bin/bash\nexec python \"$@\" --seed 99 --recompute-activations\n");
  write("wrapper", "exec python \"$@\" --seed 99\n");
  fs::permissions(folder_ / "launch.sh", fs::perms::owner_all);
  for (const std::string start :
       {"srun -n 2 launch.sh", "srun -n 2 ./launch.sh", "srun -p gpu -n 2 --label launch.sh",
        "mpirun -np 2 launch.sh", "mpirun -np 2 --mca a b -x C wrapper", "srun -n 2 wrapper",
        "srun -n 2 -- launch.sh", "srun -n 2 singularity exec -B /a:/b image.sif ./wrapper",
        "srun -n 2 numactl --localalloc ./launch.sh",
        "torchrun --nproc_per_node 2 --no-python ./launch.sh", "mpiexec -n 2 -genv A B wrapper",
        "srun -n 2 --new-option wrapper"}) {
    const Import import = this->import(gpu + start + " pretrain_gpt.py" + script_flags);
    EXPECT_THAT(import.lost, IsEmpty()) << start;
    EXPECT_EQ(parse_config(import.toml, "t").run.seed, 99) << start;
    EXPECT_EQ(import.ranks, 2) << start;
  }
}

TEST_F(Wrappers, ThatDidNotStartTheTrainingAreNamed) {
  write("quits.sh", "exit 0\n");
  for (const auto& [start, name] :
       {std::pair{"srun absent.sh", "absent.sh"},
        {"mpirun -np 2 ./deep/absent.sh", "./deep/absent.sh"},
        {"srun ./no-such-wrapper", "./no-such-wrapper"},
        {"srun no-such-wrapper", "no-such-wrapper"},
        {"srun bash absent.sh", "bash"},
        {"srun ./quits.sh", "./quits.sh"},
        {"singularity exec image.sif /opt/absent.sh", "/opt/absent.sh"},
        {"singularity exec image.sif /opt/absent", "/opt/absent"},
        {"torchrun --nproc_per_node 2 --no-python ./absent", "./absent"}}) {
    const Import import = this->import(gpu + start + " pretrain_gpt.py" + script_flags);
    EXPECT_THAT(import.lost, Contains(Field(&Note::flag, name))) << start;
  }
}

TEST_F(Wrappers, FilesOfTheQueueAreThere) {
  const char* text = R"sh(#!/bin/bash
#SBATCH --job-name=big
#SBATCH -o logs/%x-%j.out
#SBATCH --error=logs/%5j.%u.err
#SBATCH --chdir=work
set -euo pipefail
mv logs/big-1.out logs/first.out
mv logs/00001.$USER.err logs/first.err
ln -sf first.out logs/latest.out
torchrun --nproc_per_node 2 pretrain_gpt.py)sh";
  fs::create_directories(folder_ / "work");
  ImportOptions options;
  options.script.variables = {{"USER", "someone"}};
  const Import import = this->import(text + std::string(script_flags), options);
  EXPECT_THAT(import.lost, IsEmpty());
  EXPECT_THAT(import.notes, Not(about("failed")));
  EXPECT_FALSE(fs::exists(folder_ / "work/logs"));
  write("inner.sh",
        "#SBATCH -e %A_%a.err\nset -e\n[ -f slurm-1_3.out ]\nmv 1_3.err e\n"
        "torchrun --nproc_per_node 2 pretrain_gpt.py" +
            std::string(script_flags));
  EXPECT_THAT(this->import("sbatch --array=3-4 inner.sh").lost, IsEmpty());
}

TEST_F(Wrappers, WhatIsAbsentHereDoesNotEndTheScript) {
  for (const char* line :
       {"cp /usr/lib64/libfabric-of-the-nodes* .", "source /scratch/p/venv/bin/activate",
        ". /opt/conda/etc/profile.d/conda.sh", "mv /absent/a b", "ln /absent/a b",
        "rsync -a /absent/ b", "install /absent x", "tar xf /absent.tar", "cd /absent/folder",
        "mkdir /proc/folder"}) {
    const Import import =
        this->import("set -e\n" + std::string(line) +
                     "\ntorchrun --nproc_per_node 2 pretrain_gpt.py" + script_flags);
    EXPECT_THAT(import.lost, IsEmpty()) << line;
    EXPECT_EQ(import.ranks, 2) << line;
    EXPECT_THAT(import.notes, about("on this machine")) << line;
    EXPECT_THAT(import.notes, Contains(Field(&Note::flag, "line 2"))) << line;
  }
}

TEST_F(Wrappers, WhatMayDecideAboutTheTrainingIsNotDropped) {
  for (const char* line : {"set -e\nsource /scratch/p/settings.sh", "x=1\n. /scratch/p/settings.sh",
                           "set -e\nLR=$(cat /absent/lr)", "set -e\n((A++))"}) {
    const Import import = this->import(
        std::string(line) + "\ntorchrun --nproc_per_node 2 pretrain_gpt.py" + script_flags);
    EXPECT_THAT(
        import.lost,
        Contains(AllOf(Field(&Note::flag, "line 2"),
                       Field(&Note::text, HasSubstr("remove it from a copy of the script")))))
        << line;
  }
}

TEST_F(Wrappers, DevicesOfDeepspeed) {
  write("hosts", "a slots=4\nb slots=4\n");
  const auto ranks = [&](const std::string& options) {
    return import("deepspeed " + options + " pretrain_gpt.py" + script_flags +
                  "--global-batch-size 120")
        .ranks;
  };
  EXPECT_EQ(ranks("-i worker-0:0,1"), 2);
  EXPECT_EQ(ranks("--include=localhost:0,1,2"), 3);
  EXPECT_EQ(ranks("--include a:0,1@b:2,3"), 4);
  EXPECT_EQ(ranks("--hostfile hosts"), 8);
  EXPECT_EQ(ranks("--hostfile hosts --include b"), 4);
  EXPECT_EQ(ranks("--hostfile hosts --exclude b"), 4);
  EXPECT_EQ(ranks("--hostfile hosts --exclude a:0@b:1"), 6);
  EXPECT_EQ(ranks("--hostfile hosts -e a:0"), 7);
  EXPECT_EQ(ranks("--hostfile hosts --num_nodes 1"), 4);
}

TEST_F(Wrappers, ProgramsOfForksAreReadWhereTheUserAgrees) {
  const std::string text =
      "torchrun --nproc_per_node 2 pretrain_llama.py" + std::string(script_flags);
  const Import import = this->import(text);
  ASSERT_EQ(import.lost.size(), 1u);
  EXPECT_THAT(import.lost[0].text, HasSubstr("--program gpt"));
  ImportOptions agreed;
  agreed.program = "gpt";
  EXPECT_THAT(this->import(text, agreed).lost, IsEmpty());
  EXPECT_THAT(this->import(text + "--extra-vocab-size 256", agreed).lost,
              Contains(Field(&Note::flag, "--extra-vocab-size")));
  EXPECT_THAT(refusal("python pretrain_t5.py" + std::string(script_flags)),
              HasSubstr("it started pretrain_t5.py"));
}

TEST_F(Wrappers, ProgramsAreNoScripts) {
  write("train.py", "import torch\n");
  write("tool", "#!/usr/bin/env python3\nimport torch\n");
  for (const char* name : {"train.py", "tool"}) {
    try {
      import_script(name, {});
      ADD_FAILURE() << name;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), HasSubstr("not a shell script"));
    }
  }
}

// ---- run.device ----

std::string device_of(const Import& import) {
  return std::string(name_of(parse_config(import.toml, "t").run.device));
}

TEST_F(Wrappers, ScriptsForGpusStayRunsOnGpus) {
  const std::string train =
      "torchrun --nproc_per_node 2 pretrain_gpt.py" + std::string(script_flags);
  for (const char* line :
       {"module load rocm/6.2", "export HIP_VISIBLE_DEVICES=0", "#SBATCH --partition=standard-g",
        "C=/appl/local/containers/sif-images/lumi-pytorch-rocm-6.2.sif", "rocm-smi",
        "export MIOPEN_USER_DB_PATH=/tmp # and A100s elsewhere\nrocm-smi", "# on MI250X"})
    EXPECT_EQ(device_of(import(std::string(line) + "\n" + train)), "hip") << line;
  for (const char* line : {"#SBATCH --gres=gpu:a100:4", "nvidia-smi", "# tested on H100",
                           "IMAGE=nvcr.io/nvidia/pytorch:24.01-py3"}) {
    const Import import = this->import(std::string(line) + "\n" + train);
    EXPECT_EQ(device_of(import), "cuda") << line;
    EXPECT_THAT(import.notes, Not(about("is assumed"))) << line;
  }
  const Import unsaid = import(train);
  EXPECT_EQ(device_of(unsaid), "cuda");
  EXPECT_THAT(unsaid.notes, about("is assumed"));
  ImportOptions said;
  said.device = "cpu";
  EXPECT_EQ(device_of(import("rocm-smi\n" + train, said)), "cpu");
}

}  // namespace
}  // namespace trireme::megatron
