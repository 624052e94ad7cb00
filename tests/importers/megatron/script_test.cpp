// Launch scripts are run by bash in a sandbox, and the trainings that they start are found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "config/config.h"
#include "importers/megatron/import.h"
#include "importers/megatron/script_folder.h"
#include "importers/script/launch.h"
#include "importers/script/report.h"

namespace trireme::megatron {
namespace {

using script::find_launches;
using script::Isolation;
using script::Launch;
using script::launch_line;
using script::launch_size;
using script::LaunchSize;
using script::ScriptOptions;
using script::ScriptRun;

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Script = ScriptFolder;

// Among them all that an interpreter of part of the language would get wrong.
TEST_F(Script, ConstructsHaveTheValuesOfBash) {
  write("inner.env", "FROM_FILE=sourced\n");
  const char* text = R"sh(
L=11; ((L++))
M=1; (M=4)
if command -v no-such-program; then C=yes; else C=no; fi
no-such-program && D=yes || D=no
! false && E=yes
declare -A MAP=([a]=one [b]=two)
let F=3*4
for ((i = 0; i < 3; i++)); do G=$G$i; done
[[ a == a && ! b == c ]] && H=both
X=abcdef; N=X
printf -v P '%03d' 7
twice() { echo $(($1 * 2)); }
read -r R S <<< "left right"
while getopts "a:b" option -a five -b; do O=$O$option$OPTARG; done
source inner.env
HERE=$(cat <<EOF
doc $L
EOF
)
python pretrain_gpt.py $L $M $C $D $E ${MAP[b]} $F $G $H ${X:1:2} ${!N} ${X^^} $P $(twice 6) \
  $(seq -s, 3) $((0xc)) $R$S $O $FROM_FILE "$HERE" $(expr 2 + 3) $(echo 1.5 | sed s/1/2/) "$@" '$X'
)sh";
  EXPECT_THAT(launched(text, {.arguments = {"x y", ""}}),
              ElementsAre("12", "1", "no", "no", "yes", "two", "12", "012", "both", "bc", "abcdef",
                          "ABCDEF", "007", "12", "1,2,3", "12", "leftright", "afiveb", "sourced",
                          "doc 12", "5", "2.5", "x y", "", "$X"));
}

TEST_F(Script, ShimsStayInFrontOfWhateverTheScriptDoesToPath) {
  EXPECT_THAT(launched("export PATH=/usr/bin:$PATH\nf() { export PATH=/bin; python3 "
                       "pretrain_gpt.py a; }\nf\n"),
              ElementsAre("a"));
  EXPECT_THAT(launched("nohup env X=1 timeout 5 python -u some/pretrain_gpt.py a &\nwait\n"),
              ElementsAre("a"));
  EXPECT_THAT(launched("module load x\nml y\nconda activate z\nexec torchrun pretrain_gpt.py a"),
              ElementsAre("a"));
}

TEST_F(Script, ChangesOfFilesVanish) {
  write("template", "{\"train_batch_size\": BATCH}");
  write("kept", "as it was");
  const ScriptRun result = run(
      "mkdir -p deep/er /somewhere-new/x && echo a > deep/er/a && rm kept && echo b > template2\n"
      "sed s/BATCH/8/ template > ds.json\n"
      "python pretrain_gpt.py --deepspeed_config ds.json $(cat deep/er/a) $(ls)\nrm ds.json\n");
  const std::vector<Launch> launches = find_launches(result);
  ASSERT_EQ(launches.size(), 1u) << result.output;
  EXPECT_THAT(launches[0].arguments, ElementsAre("--deepspeed_config", "ds.json", "a", "deep",
                                                 "ds.json", "run.sh", "template", "template2"));
  EXPECT_EQ(launches[0].files.at("ds.json"), "{\"train_batch_size\": 8}");
  EXPECT_EQ(result.isolation, Isolation::overlay);
  EXPECT_EQ(read_file("kept"), "as it was");
  for (const char* name : {"deep", "ds.json", "template2", "/somewhere-new"})
    EXPECT_FALSE(fs::exists(name)) << name;
}

TEST_F(Script, SeesNoNetworkAndNoOtherProcesses) {
  EXPECT_THAT(launched("python pretrain_gpt.py $(grep -c : /proc/net/dev) $(ls -d /proc/[0-9]* | "
                       "wc -l | sed 's/^[0-9]$/few/')\nkill -9 -1\n"),
              ElementsAre("1", "few"));
}

TEST_F(Script, LandlockNamesThePathThatItBlocked) {
  write("template", "{}");
  const ScriptRun result =
      run("echo x > ds.json; mkdir " + (folder_ / "other").string() +
              "\npython pretrain_gpt.py --deepspeed_config ds.json $(cat template) $PWD/x\n",
          {.isolations = {Isolation::landlock}});
  EXPECT_EQ(result.isolation, Isolation::landlock);
  EXPECT_THAT(result.output,
              AllOf(HasSubstr((folder_ / "other").string()), HasSubstr("Permission denied")));
  EXPECT_FALSE(fs::exists("other"));
  EXPECT_FALSE(fs::exists("ds.json"));
  const std::vector<Launch> launches = find_launches(result);
  ASSERT_EQ(launches.size(), 1u);
  EXPECT_EQ(launches[0].files.at("ds.json"), "x\n");
  EXPECT_EQ(launches[0].arguments.back(), (folder_ / "x").string());
}

TEST_F(Script, DirectivesBecomeVariablesOfSlurm) {
  const char* text = R"sh(#!/bin/bash
#SBATCH --job-name=big
#SBATCH --nodes=3 -n 24  # a comment
#SBATCH --gres=gpu:a100:8
##SBATCH --nodes=9
#SBATCH --array=2-5
set -e
#SBATCH --nodes=7
H=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)
[ -n "$SLURM_JOB_ID" ] || { sbatch "$0"; exit; }
IP=$(srun -N 1 -n 1 -w $H echo address)
export LAUNCHER="python -u -m torch.distributed.run --nproc_per_node $SLURM_GPUS_ON_NODE"
export CMD="pretrain_gpt.py a $SLURM_NNODES $SLURM_NTASKS $SLURM_JOB_NAME $SLURM_ARRAY_TASK_ID $H $IP"
srun --jobid $SLURM_JOB_ID bash -c '$LAUNCHER --node_rank $SLURM_PROCID $CMD'
)sh";
  EXPECT_THAT(launched(text), ElementsAre("a", "3", "24", "big", "2", "node0003", "address"));
  EXPECT_THAT(launched(text, {.variables = {{"SLURM_NNODES", "5"}}}),
              ElementsAre("a", "5", "24", "big", "2", "node0005", "address"));
}

TEST_F(Script, LaunchersAreFollowedIntoScripts) {
  write("inner.sh", "torchrun --nproc_per_node 4 $HERE/pretrain_bert.py \"$@\" $SLURM_NNODES\n");
  for (const char* outer :
       {"srun -N 2 singularity exec image.sif bash -c 'HERE=x; export HERE; bash inner.sh a'",
        "sbatch -N 2 inner.sh a", "deepspeed bash inner.sh a 2", "mpirun -np 2 bash inner.sh a 2",
        "ssh -o X=y host 'bash inner.sh a 2'", "sbatch --wrap 'bash inner.sh a' --nodes 2",
        "sbatch -N2 <<E\n#!/bin/bash\nbash inner.sh a\nE\n"}) {
    const ScriptRun result = run(outer);
    const std::vector<Launch> launches = find_launches(result);
    ASSERT_EQ(launches.size(), 1u) << outer << "\n" << result.output;
    EXPECT_THAT(launches[0].arguments, ElementsAre("a", "2")) << outer;
    EXPECT_TRUE(launches[0].bert);
    EXPECT_EQ(launch_size(launches[0]).per_node, 4);
  }
}

TEST_F(Script, ProgramsAreKnownByTheirNamesAndModules) {
  const auto tasks = [&](const std::string& program) {
    return find_launches(run("torchrun " + program + std::string(script_flags))).size();
  };
  EXPECT_EQ(tasks("-m megatron.training.pretrain_gpt"), 1u);
  EXPECT_EQ(tasks("pretrain_gpt_core.py"), 1u);
  for (const char* other : {"pretrain_gpt_sft.py", "pretrain_gpt_mamba.py", "-m pretrain_vlm"})
    EXPECT_EQ(tasks(other), 0u) << other;
  const Import derived = import("torchrun pretrain_gpt_core.py" + std::string(script_flags));
  EXPECT_THAT(derived.notes, Contains(Field(&Note::flag, "pretrain_gpt_core.py")));
}

TEST_F(Script, HybridProgramsNeedAPattern) {
  const std::string start =
      "torchrun --nproc_per_node 2 pretrain_hybrid.py" + std::string(script_flags);
  const auto lost = [&](const std::string& text) {
    const Import result = import(text);
    return std::ranges::any_of(result.lost, [](const Note& note) {
      return note.flag == "pretrain_hybrid.py" && note.text.find("Mamba") != std::string::npos;
    });
  };
  EXPECT_TRUE(lost(start));
  EXPECT_FALSE(lost(start + " --hybrid-layer-pattern '*-*-'"));
}

TEST_F(Script, SizeOfTheLaunch) {
  const auto size = [&](const std::string& text) {
    const std::vector<Launch> launches = find_launches(run(text + " pretrain_gpt.py --nodes 7"));
    const LaunchSize found = launch_size(launches.at(0));
    return std::make_tuple(found.nodes, found.per_node, found.slurm);
  };
  EXPECT_EQ(size("torchrun --nproc_per_node 8 --nnodes=2"), std::make_tuple(2, 8, false));
  EXPECT_EQ(size("python -m torch.distributed.launch --nproc-per-node=4"),
            std::make_tuple(1, 4, false));
  EXPECT_EQ(size("torchrun --nnodes 2"), std::make_tuple(2, 0, false));
  EXPECT_EQ(size("#SBATCH --nodes=2 --gres=gpu:4\ntorchrun"), std::make_tuple(2, 0, true));
  EXPECT_EQ(size("#SBATCH --nodes=2 --gres=gpu:4\ntorchrun --nproc-per-node gpu"),
            std::make_tuple(2, 4, true));
  EXPECT_EQ(size("deepspeed --num_nodes 2 --num_gpus 16"), std::make_tuple(2, 16, false));
  EXPECT_EQ(size("deepspeed --num_accelerators 4"), std::make_tuple(1, 4, false));
  EXPECT_EQ(size("CUDA_VISIBLE_DEVICES='' deepspeed"), std::make_tuple(1, 0, false));
  EXPECT_EQ(size("CUDA_VISIBLE_DEVICES=2,3,5 deepspeed"), std::make_tuple(1, 3, false));
  EXPECT_EQ(size("deepspeed --include=worker-0:0,1@worker-1:4,5"), std::make_tuple(2, 2, false));
  EXPECT_EQ(size("deepspeed --include localhost:0-3"), std::make_tuple(0, 0, false));
  const auto with_hosts = [&](const char* lines, const char* options) {
    return size(fmt::format("printf '{}' > hosts; deepspeed -H hosts {}", lines, options));
  };
  EXPECT_EQ(with_hosts("# a\\n\\nworker-0  slots=4 # b\\nworker-1 slots=4", "-e worker-1"),
            std::make_tuple(1, 4, false));
  const auto ranks = [&](const char* lines, const char* options) {
    const LaunchSize found = launch_size(
        find_launches(run(fmt::format("printf '{}' > hosts; deepspeed -H hosts {} pretrain_gpt.py",
                                      lines, options)))
            .at(0));
    return std::make_tuple(found.ranks(), launch_line(found, "run.toml"));
  };
  const char* uneven = "worker-0 slots=4\\nworker-1 slots=2\\nworker-2 slots=4";
  EXPECT_EQ(ranks(uneven, ""),
            std::make_tuple(10, "mpirun -n 10 --hostfile HOSTS trireme train run.toml"));
  EXPECT_EQ(ranks(uneven, "-i worker-0@worker-1:0"),
            std::make_tuple(5, "mpirun -n 5 --hostfile HOSTS trireme train run.toml"));
  EXPECT_EQ(ranks(uneven, "-e worker-1"),
            std::make_tuple(8, "mpirun -n 8 --hostfile HOSTS trireme train run.toml"));
  EXPECT_EQ(ranks(uneven, "--num_gpus 2"),
            std::make_tuple(6, "mpirun -n 6 --hostfile HOSTS trireme train run.toml"));
  // Which two of them is decided by the order of the lines.
  EXPECT_EQ(std::get<0>(ranks(uneven, "--num_nodes 2")), 0);
  for (const char* options : {"-i worker-7:0", "-i worker-0:4", "-e worker-0:9"})
    EXPECT_EQ(with_hosts("worker-0 slots=4", options), std::make_tuple(0, 0, false)) << options;
  for (const char* lines : {"worker-0 slots=4\\nworker-0 slots=2", "worker-0 4", "worker-0 slots=x",
                            "worker-0 gpus=2 slots=4", "# none"})
    EXPECT_EQ(with_hosts(lines, ""), std::make_tuple(0, 0, false)) << lines;
  EXPECT_EQ(size("deepspeed --num_gpus -1 --include localhost:0,1"), std::make_tuple(1, 2, false));
  EXPECT_EQ(size("deepspeed --num_nodes=-1 --num_gpus 3"), std::make_tuple(1, 3, false));
  // DeepSpeed starts neither.
  EXPECT_EQ(size("deepspeed --num_gpus 2 --include localhost:0,1"), std::make_tuple(0, 0, false));
  EXPECT_EQ(size("deepspeed --include localhost:0,1 --exclude localhost:1"),
            std::make_tuple(0, 0, false));
  EXPECT_EQ(size("accelerate launch --num_machines 2 --num_processes 16"),
            std::make_tuple(2, 8, false));
  EXPECT_EQ(size("mpirun -np 6 python"), std::make_tuple(1, 6, false));
  EXPECT_EQ(size("prun -n 6 python"), std::make_tuple(1, 6, false));
  EXPECT_EQ(size("jsrun -n 2 -a 3 -g 3 python"), std::make_tuple(1, 6, false));
  EXPECT_EQ(size("jsrun --nrs 4 -g 1 python"), std::make_tuple(1, 4, false));
  EXPECT_EQ(size("jsrun -p 5 python"), std::make_tuple(1, 5, false));
  EXPECT_EQ(size("jsrun -g 6 python"), std::make_tuple(1, 0, false));
  EXPECT_EQ(size("flux run -n 6 python"), std::make_tuple(1, 6, false));
  EXPECT_EQ(size("ibrun python"), std::make_tuple(1, 0, false));
  EXPECT_EQ(size("conda run -n env --no-capture-output torchrun --nproc_per_node 3"),
            std::make_tuple(1, 3, false));
  EXPECT_EQ(size("micromamba run -p /env bash -c 'mpirun -np 3 python pretrain_gpt.py' #"),
            std::make_tuple(1, 3, false));
  EXPECT_EQ(size("pixi run --frozen python"), std::make_tuple(1, 1, false));
  EXPECT_EQ(size("conda activate env; python"), std::make_tuple(1, 1, false));
  EXPECT_EQ(size("python"), std::make_tuple(1, 1, false));
  EXPECT_EQ(size("srun -N 4 -n 32 python"), std::make_tuple(4, 8, true));
  // A node has four devices here, and SLURM does not start a task on each of them by itself.
  EXPECT_EQ(size("#SBATCH --nodes=3\n#SBATCH --gres=gpu:a100:4  # four\nsrun python"),
            std::make_tuple(3, 0, true));
  EXPECT_EQ(size("#SBATCH --nodes=3 --ntasks-per-node=4\nsrun python"),
            std::make_tuple(3, 4, true));
  EXPECT_EQ(size("#SBATCH --nodes=3 --ntasks-per-node 1\nsrun torchrun --nproc_per_node 8"),
            std::make_tuple(3, 8, true));
}

TEST_F(Script, ProgramsForPythonAreRun) {
  if (::system("python3 -c 1 2>/dev/null") != 0) GTEST_SKIP() << "there is no Python";
  EXPECT_THAT(launched("N=$(python -c 'print(3*4)')\nM=$(python3 - <<E\nprint('m')\nE\n)\n"
                       "python pretrain_gpt.py $N $M"),
              ElementsAre("12", "m"));
}

TEST_F(Script, PythonSeesTheDevicesOfTheNodesThatTrain) {
  EXPECT_THAT(launched("#SBATCH --gres=gpu:4\n"
                       "N=$(python -c 'import torch; print(torch.cuda.device_count())')\n"
                       "M=$(python -c \"import torch; print(torch.cuda.is_available())\")\n"
                       "python pretrain_gpt.py $N $M"),
              ElementsAre("4", "True"));
}

TEST_F(Script, AnswersThatAreNotKnownAreListed) {
  const Import import =
      this->import("URL=$(curl http://x)\ndeepspeed --num_gpus 2 pretrain_gpt.py" +
                   std::string(script_flags) + "--save $URL/y\nDONE=$(squeue)");
  ASSERT_EQ(import.lost.size(), 1u);
  EXPECT_EQ(import.lost[0].flag, "line 1");
  EXPECT_THAT(import.lost[0].text, HasSubstr("reads the output of 'curl http://x'"));
}

TEST_F(Script, DevicesAreCountedWhereTheirNumberIsKnown) {
  const std::string text =
      "N=$(nvidia-smi -L | wc -l)\ntorchrun --nproc_per_node $N pretrain_gpt.py" +
      std::string(script_flags);
  ImportOptions four;
  four.script.devices = 4;
  EXPECT_EQ(import(text + "--global-batch-size 4", four).ranks, 4);
  EXPECT_THAT(import(text + "--global-batch-size 4", four).lost, IsEmpty());
  EXPECT_EQ(import("#SBATCH --gpus-per-node=2\n" + text).ranks, 2);
  const Import assumed = import(text + "--global-batch-size 8");
  ASSERT_EQ(assumed.lost.size(), 1u);
  EXPECT_EQ(assumed.lost[0].flag, "--devices");
}

TEST_F(Script, ScriptsWithoutOneTrainingSayWhatWasSeen) {
  EXPECT_THAT(refusal(""),
              AllOf(HasSubstr("did not start pretrain_gpt.py"), HasSubstr("it ended normally")));
  EXPECT_THAT(refusal("echo before >&2; ls /no/such/folder || exit 7"),
              AllOf(HasSubstr("it ended with exit code 7"), HasSubstr("| before"),
                    HasSubstr("/no/such/folder': No such file")));
  EXPECT_THAT(
      refusal("torchrun train.py --x; python pretrain_t5.py"),
      HasSubstr("it started train.py, pretrain_t5.py, which is not recognized as Megatron's GPT"));
  EXPECT_THAT(refusal("docker run image true"), HasSubstr("it called docker"));
  const std::string two = refusal(
      "python pretrain_gpt.py --lr 1 --seed 2\n"
      "python pretrain_gpt.py --lr 1 --seed 3\n");
  EXPECT_THAT(two, AllOf(HasSubstr("starts 2 different trainings: choose one with --launch N"),
                         HasSubstr("1: line 1: pretrain_gpt.py --lr 1 --seed 2"),
                         HasSubstr("2: line 2: the first difference is: --seed 3")));
  EXPECT_EQ(import("python pretrain_gpt.py --seed 2\npython pretrain_gpt.py --seed 3\n",
                   {.script = {}, .file = "", .launch = 2})
                .line,
            2);
  EXPECT_THAT(refusal("python pretrain_gpt.py\n", {.script = {}, .file = "", .launch = 2}),
              HasSubstr("starts only 1 training"));
  write("run.sh", std::string("a\0b", 3));
  EXPECT_THROW(import_script("run.sh", {}), Error);
  EXPECT_THROW(import_script("nothing.sh", {}), Error);
  EXPECT_THAT(refusal("torchrun -m torchtitan.train --module llama3 --config llama3_8b"),
              HasSubstr("saves its configuration with --debug.save_config_file FILE.json"));
  EXPECT_THAT(refusal("torchrun mine.py --config-file conf.yaml"),
              HasSubstr("'trireme import-args conf.yaml' reads settings of"));
}

TEST_F(Script, TheSameTrainingTwiceIsOne) {
  EXPECT_EQ(import("for i in 1 2; do torchrun --nproc_per_node 2 --node_rank $i pretrain_gpt.py" +
                   std::string(script_flags) + "--tensorboard-dir tb$i --num-workers $i; done")
                .ranks,
            2);
}

TEST_F(Script, EndlessAndExplodingScriptsEnd) {
  ImportOptions quick;
  quick.script.limit = std::chrono::milliseconds(1500);
  const auto late =
      AllOf(HasSubstr("it did not finish within"), HasSubstr("the limit of --timeout"));
  EXPECT_THAT(refusal("while true; do :; done", quick), late);
  EXPECT_THAT(refusal("setsid sh -c 'while :; do :; done' & wait", quick), late);
  ImportOptions patient;
  patient.script.limit = std::chrono::minutes(2);  // so that only the number ends this one
  EXPECT_THAT(refusal("for i in $(seq 600); do (kill -STOP $BASHPID) & done; wait", patient),
              HasSubstr("more than 500 processes"));
  EXPECT_THAT(refusal("yes"), HasSubstr("it ended with exit code"));
  EXPECT_THAT(refusal("srun bash run.sh"), HasSubstr("did not start pretrain_gpt.py"));
  const Import after = import("torchrun --nproc_per_node 2 pretrain_gpt.py" +
                                  std::string(script_flags) + "\nwhile true; do :; done",
                              quick);
  EXPECT_THAT(after.lost, IsEmpty());
  EXPECT_THAT(after.notes,
              Contains(AllOf(Field(&Note::flag, "script"),
                             Field(&Note::text, AllOf(late, HasSubstr("after it had started"))))));
}

// Processor time is what counts, which does not pass faster where other programs run.
TEST_F(Script, OneThatWaitsIsEndedByTheClockMuchLater) {
  ImportOptions quick;
  quick.script.limit = std::chrono::milliseconds(500);
  EXPECT_THAT(refusal("/bin/sleep 600", quick),
              HasSubstr("it did not finish within 3 s (6 times the limit of --timeout)"));
}

TEST_F(Script, BlanksThatTheAuthorLeftAreListed) {
  const Import import = this->import(
      "#!/bin/bash\n# run <a script>\nDATA=<path and prefix>_text_document\nSAVE=<Save>\n"
      "python pretrain_gpt.py --data-path $DATA --save $SAVE --load <PATH TO load> # $0\n");
  std::vector<std::string> blanks;
  for (const Note& note : import.notes) {
    if (note.text.starts_with("a placeholder")) blanks.push_back(note.flag);
  }
  EXPECT_THAT(blanks, ElementsAre("FILL_IN:path_and_prefix_text_document", "FILL_IN:Save",
                                  "FILL_IN:PATH_TO_load"));
}

TEST_F(Script, NumberOfProcessesThatIsNotKnownIsNotOne) {
  const Import known = import("torchrun pretrain_gpt.py" + std::string(script_flags));
  EXPECT_EQ(known.ranks, 0);
  EXPECT_EQ(known.launch, "mpirun -n N trireme train run.toml");
  EXPECT_THAT(known.lost, IsEmpty());
  const Import unknown =
      import("torchrun pretrain_gpt.py" + std::string(script_flags) + "--global-batch-size 0");
  ASSERT_EQ(unknown.lost.size(), 1u);
  EXPECT_EQ(unknown.lost[0].flag, "--global-batch-size");
}

TEST_F(Script, LostPartsAreListed) {
  const Import import = this->import(
      "torchrun --nproc_per_node 3 pretrain_gpt.py --num-layers 2 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 8 --max-position-embeddings 8 --micro-batch-size 1 "
      "--lr $LR --train-iters 5 --data-path $1 --vocab-file v --merge-file m --fp8-format e4m3 "
      "--my-own-flag 3 --tensor-model-parallel-size 2 --deepspeed_config none.json\n",
      {.script = {.arguments = {"corpus"}}, .file = ""});
  std::vector<std::string> lost;
  for (const Note& note : import.lost) lost.push_back(note.flag);
  EXPECT_THAT(lost, ElementsAre("--lr", "--my-own-flag", "--deepspeed_config", "pretrain-gpt",
                                "--fp8-format", "the configuration"));
  EXPECT_THAT(parse_config(import.toml, "t").data.path, ElementsAre("corpus"));
}

TEST_F(Script, ADeepspeedConfigurationOfTheScriptIsRead) {
  const Import import = this->import(
      "CONFIG=ds.json\ncat <<E > $CONFIG\n{\"zero_optimization\": {\"stage\": 2}, \"fp16\": "
      "{\"enabled\": true, \"loss_scale\": 0, \"loss_scale_window\": 500, \"initial_scale_power\": "
      "11}}\nE\ndeepspeed --num_gpus 2 pretrain_gpt.py --deepspeed --deepspeed_config=$CONFIG "
      "--loss-scale 12" +
      std::string(script_flags));
  EXPECT_THAT(import.lost, IsEmpty());
  const Config c = parse_config(import.toml, "t");
  EXPECT_EQ(c.parallel.zero, 2);
  EXPECT_EQ(c.run.precision, Precision::fp16);
  EXPECT_EQ(c.optimizer.initial_loss_scale, 2048);
  EXPECT_EQ(c.optimizer.loss_scale_window, 500);
  EXPECT_EQ(c.optimizer.loss_scale, 0);
}

TEST_F(Script, AnotherFolderIsNoted) {
  const Import import =
      this->import("mkdir x; cd x; python pretrain_gpt.py" + std::string(script_flags));
  EXPECT_EQ(import.notes.back().flag, "folder");
  EXPECT_THAT(import.notes.back().text, HasSubstr((folder_ / "x").string()));
}

// ---- the scripts of recipes/megatron ----

Import imported(const std::string& name, std::vector<std::string> arguments = {},
                std::vector<std::string> added = {}) {
  const fs::path path = fs::path(TRIREME_TESTS "/../recipes/megatron").lexically_normal() / name;
  return import_script(path, {.script = {.arguments = std::move(arguments)},
                              .file = "run.toml",
                              .added = std::move(added)});
}

TEST(Recipes, GptTranslatesCompletely) {
  const Import import = imported("gpt_345m.sh", {"ckpt", "tok", "corpus"});
  EXPECT_THAT(import.lost, IsEmpty());
  EXPECT_EQ(import.launch, "mpirun -n 4 trireme train run.toml");
  const Config c = parse_config(import.toml, "gpt");
  EXPECT_EQ(c.model.num_layers, 24);
  EXPECT_EQ(c.parallel.tp, 2);
  EXPECT_EQ(c.parallel.pp, 2);
  EXPECT_TRUE(c.parallel.sequence_parallel);
  EXPECT_EQ(c.run.precision, Precision::fp16);
  EXPECT_EQ(c.run.dir, "ckpt");
  EXPECT_EQ(c.data.vocab_file, "tok/vocab.json");
  EXPECT_THAT(c.data.path, ElementsAre("corpus"));
  EXPECT_EQ(c.train.global_batch_size, 16);
}

TEST(Recipes, BertTranslatesCompletely) {
  EXPECT_THAT(imported("bert_base.sh").lost,
              ElementsAre(Field(&Note::flag, "--calculate-per-token-loss")));
  const Import import = imported("bert_base.sh", {}, {"--calculate-per-token-loss"});
  EXPECT_THAT(import.lost, IsEmpty());
  EXPECT_EQ(import.launch, "srun --nodes=2 --ntasks-per-node=8 trireme train run.toml");
  const Config c = parse_config(import.toml, "bert");
  EXPECT_EQ(c.model.family, "bert");
  EXPECT_EQ(c.run.precision, Precision::bf16);
  EXPECT_EQ(c.train.samples, 64'000'000);
  EXPECT_EQ(c.optimizer.beta2, 0.98);
  EXPECT_EQ(c.data.tokenizer, "bert");
  EXPECT_THAT(c.data.path, ElementsAre("0.7", "/scratch/corpora/wiki_text_sentence", "0.3",
                                       "/scratch/corpora/books_text_sentence"));
  EXPECT_EQ(c.parallel.zero, 1);
  EXPECT_TRUE(c.log.tensorboard);
  EXPECT_EQ(c.train.timeout_s, 1800);
}

TEST(Recipes, LlamaTranslatesCompletely) {
  const Import import = imported("llama_1b.sh", {"--exit-interval", "50"});
  EXPECT_THAT(import.lost, IsEmpty());
  EXPECT_EQ(import.launch, "mpirun -n 8 trireme train run.toml");
  const Config c = parse_config(import.toml, "llama");
  EXPECT_EQ(c.model.family, "llama");
  EXPECT_EQ(c.model.num_kv_heads, 8);
  EXPECT_EQ(c.model.activation, MlpActivation::swiglu);
  EXPECT_EQ(c.model.norm, NormType::rms_norm);
  EXPECT_EQ(c.model.position, PositionEncoding::rope);
  EXPECT_EQ(c.model.rope_base, 500000);
  EXPECT_FALSE(c.model.bias || c.model.tie_embeddings);
  EXPECT_EQ(c.model.hidden_dropout, 0);
  EXPECT_EQ(c.train.exit_interval, 50);
  EXPECT_EQ(c.run.seed, 4242);
}

}  // namespace
}  // namespace trireme::megatron
