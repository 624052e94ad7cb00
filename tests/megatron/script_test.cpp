// Launch scripts are read as the shell would run them, without running anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/file.h"
#include "config/config.h"
#include "megatron/import.h"

namespace trireme::megatron {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

LaunchScript read(const std::string& text, std::vector<std::string> arguments = {},
                  std::map<std::string, std::string> variables = {}) {
  return read_launch_script(text, {"dir/run.sh", std::move(arguments), std::move(variables)});
}

// The arguments of the script's launch.
std::vector<std::string> launched(const std::string& text, std::vector<std::string> arguments = {},
                                  std::map<std::string, std::string> variables = {}) {
  const LaunchScript script = read(text, std::move(arguments), std::move(variables));
  EXPECT_EQ(script.launches.size(), 1u) << text;
  return script.launches.empty() ? std::vector<std::string>{} : script.launches[0].arguments;
}

// What `expression` expands to, behind the script `before`.
std::vector<std::string> expanded(const std::string& expression, const std::string& before = "") {
  return launched(before + "\npython pretrain_gpt.py " + expression + "\n");
}

TEST(LaunchScript, QuotesAndVariables) {
  EXPECT_THAT(expanded("a 'b c' \"d  e\" f\\ g \"$X\" $X '$X' ${X}y", "X='1  2'"),
              ElementsAre("a", "b c", "d  e", "f g", "1  2", "1", "2", "$X", "1", "2y"));
  EXPECT_THAT(expanded("a\\\n  b # a comment\n"), ElementsAre("a", "b"));
  EXPECT_THAT(expanded("\"$EMPTY\" $EMPTY x", "EMPTY="), ElementsAre("", "x"));
  EXPECT_THAT(expanded("a#b \"c # d\""), ElementsAre("a#b", "c # d"));
}

TEST(LaunchScript, ParameterForms) {
  EXPECT_THAT(expanded("${A:-1} ${A:-\"b c\"} ${B:-3} ${B:+4} ${A:+5} ${B-6}", "B=2"),
              ElementsAre("1", "b c", "2", "4", "2"));
  EXPECT_THAT(expanded("${A:=7} $A"), ElementsAre("7", "7"));
  EXPECT_THAT(expanded("${P%.sh} ${P##*/} ${P#*/} ${P%/*} ${P/a/x} ${P//a/x} ${#P}", "P=a/b/a.sh"),
              ElementsAre("a/b/a", "a.sh", "b/a.sh", "a/b", "x/b/a.sh", "x/b/x.sh", "8"));
  EXPECT_THAT(expanded("$((2 * N + 1)) $((N > 2 ? 10 : 20)) $(( (1+2)*3 % 4 ))", "N=4"),
              ElementsAre("9", "10", "1"));
  EXPECT_THAT(launched("set -- x y z; shift\npython pretrain_gpt.py $1 $# \"$@\" ${9:-none}"),
              ElementsAre("y", "2", "y", "z", "none"));
}

TEST(LaunchScript, TheHomeFolder) {
  EXPECT_THAT(
      launched("D=~/data\npython pretrain_gpt.py ~/x $D \"~/y\" a~/b", {}, {{"HOME", "/h"}}),
      ElementsAre("/h/x", "/h/data", "~/y", "a~/b"));
}

TEST(LaunchScript, Lists) {
  EXPECT_THAT(expanded("${A[@]} \"${A[@]}\" ${A[1]} ${#A[@]} $A",
                       "A=( one  # first\n 'two three' )\nA+=(four)"),
              ElementsAre("one", "two", "three", "four", "one", "two three", "four", "two", "three",
                          "3", "one"));
  EXPECT_THAT(expanded("\"${E[@]}\" x", "E=()"), ElementsAre("x"));
}

TEST(LaunchScript, CommandsThatOnlyRewriteTheirArguments) {
  EXPECT_THAT(expanded("$(dirname \"$0\")/x $(basename a/b.txt .txt) `pwd`/y $(echo a b)"),
              ElementsAre("dir/x", "b", "./y", "a", "b"));
  EXPECT_THAT(expanded("$D", "D=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)"),
              ElementsAre("dir"));
}

TEST(LaunchScript, WhatIsNotKnownStaysAsItStands) {
  EXPECT_THAT(expanded("--lr $LR --save $(date +%s x)/ckpt --data-path \"$1\" --x ${Y}/z"),
              ElementsAre("--lr", "${LR}", "--save", "$(date +%s x)/ckpt", "--data-path", "$1",
                          "--x", "${Y}/z"));
  EXPECT_THAT(launched("A=$1\npython pretrain_gpt.py ${A:-other} $B", {}, {{"B", "b"}}),
              ElementsAre("other", "b"));
}

TEST(LaunchScript, Conditions) {
  const char* script = R"(
if [ "$MODE" = big ] && [[ $N -gt 2 ]]; then SIZE=big
elif [[ $MODE == sm* || -z $N ]]; then
  SIZE=small
else SIZE=other; fi
[ -n "$FLAG" ] && EXTRA=--bf16
[[ -z "$FLAG" ]] || EXTRA="$EXTRA --seen"
((N > 5)) && EXTRA=--many
case $MODE in
  big|large) KIND=1 ;;
  s*) KIND=2
    ;;
  *) KIND=3 ;;
esac
python pretrain_gpt.py $SIZE $KIND $EXTRA
)";
  EXPECT_THAT(launched(script, {}, {{"MODE", "big"}, {"N", "3"}}),
              ElementsAre("big", "1", "${EXTRA}"));
  EXPECT_THAT(launched(script, {}, {{"MODE", "small"}, {"N", "9"}}),
              ElementsAre("small", "2", "--many"));
  EXPECT_THAT(launched(script, {}, {{"MODE", "x"}, {"N", "1"}, {"FLAG", "1"}}),
              ElementsAre("other", "3", "--bf16", "--seen"));
}

TEST(LaunchScript, ConditionsThatOnlyRunningWouldDecide) {
  const LaunchScript script =
      read("if [ -f /etc/x ]; then A=1; else A=2; fi\npython pretrain_gpt.py ${A:-3}\n");
  EXPECT_THAT(script.launches.at(0).arguments, ElementsAre("3"));
  ASSERT_EQ(script.lost.size(), 1u);
  EXPECT_EQ(script.lost[0].flag, "line 1");
}

TEST(LaunchScript, LoopsAndFunctions) {
  EXPECT_THAT(expanded("$ALL", "for x in 1 2 3; do ALL=\"$ALL --n $x\"; done"),
              ElementsAre("${ALL}", "--n", "1", "--n", "2", "--n", "3"));
  EXPECT_THAT(launched("while [[ $# -gt 0 ]]; do\n case $1 in\n --lr) LR=$2; shift ;;\n esac\n"
                       " shift\ndone\npython pretrain_gpt.py --lr $LR",
                       {"--lr", "3", "--x"}),
              ElementsAre("--lr", "3"));
  EXPECT_THAT(expanded("$V",
                       "add() {\n V=\"$V$1\"\n if [ $1 = b ]; then return; fi\n V=$V-\n}\n"
                       "V=; add a; add b"),
              ElementsAre("a-b"));
  EXPECT_THAT(launched("run() { torchrun pretrain_gpt.py \"$@\"; }\nrun --a 1\n"),
              ElementsAre("--a", "1"));
  EXPECT_THAT(launched("for i in 1 2; do if [ $i = 2 ]; then break; fi; V=$i; done\n"
                       "python pretrain_gpt.py $V"),
              ElementsAre("1"));
}

TEST(LaunchScript, TextsThatAreEvaluated) {
  EXPECT_THAT(launched("ARGS=\"--a 'x y'\"\ncmd=\"deepspeed pretrain_gpt.py $ARGS\"\necho $cmd\n"
                       "eval $cmd 2>&1 | tee log\n"),
              ElementsAre("--a", "x y"));
  const LaunchScript script =
      read("srun -n 4 bash -c \"cd x; python -u a/pretrain_bert.py --a $N\"\n", {}, {{"N", "5"}});
  ASSERT_EQ(script.launches.size(), 1u);
  EXPECT_THAT(script.launches[0].arguments, ElementsAre("--a", "5"));
  EXPECT_EQ(script.launches[0].program, Program::bert);
  EXPECT_EQ(script.launches[0].launcher.front(), "srun");
  EXPECT_THAT(read("echo pretrain_gpt.py a\nexit 0\npython pretrain_gpt.py\n").launches, IsEmpty());
}

TEST(LaunchScript, HereDocumentsBecomeFiles) {
  const LaunchScript script = read(
      "S=2\ncat <<EOT > $OUT.json\n{\"stage\": $S, \"q\": 'x'}\nEOT\n"
      "cat > raw.json <<'END'\n$S\nEND\npython pretrain_gpt.py",
      {}, {{"OUT", "ds"}});
  EXPECT_EQ(script.files.at("ds.json"), "{\"stage\": 2, \"q\": 'x'}\n");
  EXPECT_EQ(script.files.at("raw.json"), "$S\n");
}

TEST(LaunchScript, BlanksThatTheAuthorLeft) {
  EXPECT_THAT(
      expanded("--save $SAVE --data-path $DATA",
               "SAVE=<Specify path>\n"
               "DATA=<path and prefix>_text_document\ncat <input >output"),
      ElementsAre("--save", "<Specify path>", "--data-path", "<path and prefix>_text_document"));
}

// The forms that scripts of Megatron-DeepSpeed are made of.
TEST(LaunchScript, DeepspeedAsPeopleWriteIt) {
  const char* script = R"sh(#!/bin/bash
HERE=`pwd`
STAMP=`date +%F`
CONFIG="$(dirname $(realpath $0))/ds.json"
STAGE=${STAGE:-1}
if [[ ! $STAGE =~ ^[0-3]$ ]]; then
    echo "wrong stage"
    exit 1
fi
TP=${TP:-2}; DP=${DP:-1}
WORLD=$((TP*DP))
DTYPE="bf16"
while [[ $# -gt 0 ]]
do
case "$1" in
    -z|--zero)
    STAGE=$2;
    shift
    ;;
    *)
    echo "unknown"; exit 1
    ;;
esac
shift
done
options="     --tensor-model-parallel-size $TP --num-layers 4     --${DTYPE}     "
options="${options} --deepspeed --deepspeed_config=${CONFIG} --zero-stage=${STAGE}"
if [[ ${STAGE} -gt 1 ]]; then
options="${options}     --no-pipeline-parallel"
fi
cat <<EOT > $CONFIG
{ "train_micro_batch_size_per_gpu": 2,
  "odd": $([ "$X" = "y" ] && echo true || echo false),
  "zero_optimization": { "stage": $STAGE } }
EOT
run="deepspeed --master_port 29700 --num_nodes 1 --num_gpus $WORLD ${HERE}/pretrain_gpt.py $@ ${options} &> log_${STAMP}"
echo ${run}
eval ${run}
)sh";
  const LaunchScript found = read(script, {"-z", "2"});
  ASSERT_EQ(found.launches.size(), 1u);
  EXPECT_THAT(
      found.launches[0].arguments,
      ElementsAre("--tensor-model-parallel-size", "2", "--num-layers", "4", "--bf16", "--deepspeed",
                  "--deepspeed_config=dir/ds.json", "--zero-stage=2", "--no-pipeline-parallel"));
  EXPECT_EQ(launch_size(found.launches[0], found.sbatch).per_node, 2);
  EXPECT_THAT(found.files.at("dir/ds.json"), HasSubstr("\"odd\": null,"));
}

TEST(LaunchScript, SizeOfTheLaunch) {
  const auto size = [](const std::string& text) {
    const LaunchScript script = read(text + " pretrain_gpt.py");
    const LaunchSize found = launch_size(script.launches.at(0), script.sbatch);
    return std::make_tuple(found.nodes, found.per_node, found.slurm);
  };
  EXPECT_EQ(size("torchrun --nproc_per_node 8 --nnodes=2"), std::make_tuple(2, 8, false));
  EXPECT_EQ(size("python -m torch.distributed.launch --nproc-per-node=4"),
            std::make_tuple(1, 4, false));
  EXPECT_EQ(size("deepspeed --num_nodes 2 --num_gpus 16"), std::make_tuple(2, 16, false));
  EXPECT_EQ(size("mpirun -np 6 python"), std::make_tuple(1, 6, false));
  EXPECT_EQ(size("python"), std::make_tuple(1, 1, false));
  EXPECT_EQ(size("srun -N 4 -n 32 python"), std::make_tuple(4, 8, true));
  EXPECT_EQ(size("#SBATCH --nodes=3\n#SBATCH --gres=gpu:a100:4  # four\nsrun python"),
            std::make_tuple(3, 4, true));
  EXPECT_EQ(size("torchrun --nproc_per_node $GPUS --nnodes 2"), std::make_tuple(2, 0, false));
}

std::string refusal(const std::string& text) {
  try {
    import_script(text, {"run.sh", {}, {}}, "run.toml");
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::bad_input);
    return error.what();
  }
  ADD_FAILURE() << "accepted";
  return "";
}

TEST(LaunchScript, RefusesWhatIsNoScript) {
  EXPECT_THAT(refusal(""), HasSubstr("found no command"));
  EXPECT_THAT(refusal("echo \"open\npython pretrain_gpt.py"), HasSubstr("run.sh:1: a quote"));
  EXPECT_THAT(refusal(std::string("a\n\0b", 4)), HasSubstr("run.sh:2: holds a control character"));
  EXPECT_THAT(refusal("source env.sh\npython $SCRIPT"), HasSubstr("'env.sh' is not read"));
  EXPECT_THAT(refusal("python pretrain_t5.py"), HasSubstr("trains a model that is not there"));
  EXPECT_THAT(refusal(std::string(2 << 20, 'a')), HasSubstr("no launch script"));
}

TEST(LaunchScript, EndlessAndExplodingScriptsEnd) {
  EXPECT_THAT(refusal("while true; do A=1; done"), HasSubstr("more than"));
  EXPECT_THAT(refusal("f() { f; }\nf"), HasSubstr("without end"));
  EXPECT_THAT(refusal("A=xxxxxxxxxxxxxxxx\nwhile true; do A=$A$A; done"), HasSubstr("too long"));
  EXPECT_THAT(refusal("A=(x)\nwhile true; do A+=(\"${A[@]}\"); done"), HasSubstr("too"));
  const std::string star(20000, '*'), long_text(20000, 'a');
  EXPECT_THAT(refusal("A=" + long_text + "\n[[ $A == " + star + "b ]]\necho ${A%" + star + "b}"),
              HasSubstr("more work"));
  EXPECT_THAT(refusal("A=(" + std::string(20000, ' ') +
                      "a b)\nwhile true; do A+=(1 2 3 4 5 6 7 8); "
                      "[[ ${#A[@]} = 1 ]]; done"),
              HasSubstr("than"));
  std::string sums;
  for (int i = 0; i < 20; ++i) {
    sums += fmt::format("A{}='A{}", i, i + 1);
    for (int k = 0; k < 50; ++k) sums += fmt::format("+A{}", i + 1);
    sums += "'\n";
  }
  EXPECT_THAT(refusal(sums + "echo $((A0))"), HasSubstr("more work"));
  EXPECT_THAT(refusal("X='eval $X'\neval $X"), HasSubstr("too deeply"));
  std::string many = "python pretrain_gpt.py";
  for (int i = 0; i < 30'000; ++i) many += fmt::format(" --num-layer{} $X{}", i, i);
  EXPECT_LE(import_script(many, {"run.sh", {}, {}}, "run.toml").lost.size(), 500u);
  EXPECT_THAT(refusal("echo " + std::string(5000, '(')), HasSubstr("run.sh"));
  std::string deep = "x";
  for (int i = 0; i < 100; ++i) deep.insert(0, "$(echo ").append(")");
  EXPECT_THAT(refusal("A=" + deep), HasSubstr("too deeply"));
  EXPECT_THAT(expanded("$((9223372036854775807 + 1)) $((1 / 0))"),
              ElementsAre("$((9223372036854775807 + 1))", "$((1 / 0))"));
}

// ---- the scripts of recipes/megatron ----

Import imported(const std::string& name, std::vector<std::string> arguments = {}) {
  const fs::path path =
      fs::path(TRIREME_TEST_DATA "/../../../recipes/megatron").lexically_normal() / name;
  return import_script(read_file(path), {name, std::move(arguments), {}}, "run.toml");
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
  EXPECT_EQ(c.run.precision, "fp16");
  EXPECT_EQ(c.run.dir, "ckpt");
  EXPECT_EQ(c.data.vocab_file, "tok/vocab.json");
  EXPECT_THAT(c.data.path, ElementsAre("corpus"));
  EXPECT_EQ(c.train.global_batch_size, 16);
}

TEST(Recipes, BertTranslatesCompletely) {
  const Import import = imported("bert_base.sh");
  EXPECT_THAT(import.lost, IsEmpty());
  EXPECT_EQ(import.launch, "srun --nodes=2 --ntasks-per-node=8 trireme train run.toml");
  const Config c = parse_config(import.toml, "bert");
  EXPECT_EQ(c.model.family, "bert");
  EXPECT_EQ(c.run.precision, "bf16");
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
  EXPECT_EQ(c.model.activation, "swiglu");
  EXPECT_EQ(c.model.norm, "rms_norm");
  EXPECT_EQ(c.model.position, "rope");
  EXPECT_EQ(c.model.rope_base, 500000);
  EXPECT_FALSE(c.model.bias || c.model.tie_embeddings);
  EXPECT_EQ(c.model.hidden_dropout, 0);
  EXPECT_EQ(c.train.exit_interval, 50);
  EXPECT_EQ(c.run.seed, 4242);
}

TEST(Import, ListsWhatItCouldNotCarryOver) {
  const Import import = import_script(
      "DATA=$1\ntorchrun --nproc_per_node 3 pretrain_gpt.py --num-layers 2 --hidden-size 64 "
      "--num-attention-heads 4 --seq-length 8 --max-position-embeddings 8 --micro-batch-size 1 "
      "--lr $LR --train-iters 5 --data-path $DATA --vocab-file v --merge-file m --fp8-format e4m3 "
      "--my-own-flag 3 $MORE --tensor-model-parallel-size 2\n",
      {"run.sh", {}, {}}, "run.toml");
  std::vector<std::string> lost;
  for (const Note& note : import.lost) lost.push_back(note.flag);
  EXPECT_THAT(lost, ElementsAre("${LR}", "$1", "${MORE}", "--lr", "--fp8-format", "--my-own-flag",
                                "pretrain-gpt", "the configuration"));
  EXPECT_THAT(parse_config(import.toml, "t").data.path, ElementsAre("$1"));
}

TEST(Import, ReadsTheDeepspeedConfigurationThatTheScriptWrites) {
  const Import import = import_script(
      "CONFIG=ds.json\ncat <<E > $CONFIG\n{\"zero_optimization\": {\"stage\": 2}, "
      "\"bf16\": {\"enabled\": true}}\nE\n"
      "deepspeed --num_gpus 2 pretrain_gpt.py --deepspeed --deepspeed_config=$CONFIG "
      "--num-layers 2 --hidden-size 64 --num-attention-heads 4 --seq-length 8 "
      "--max-position-embeddings 8 --micro-batch-size 1 --lr 1 --train-iters 5 --data-path d "
      "--vocab-file v --merge-file m\n",
      {"run.sh", {}, {}}, "run.toml");
  EXPECT_THAT(import.lost, IsEmpty());
  const Config c = parse_config(import.toml, "t");
  EXPECT_EQ(c.parallel.zero, 2);
  EXPECT_EQ(c.run.precision, "bf16");
}

}  // namespace
}  // namespace trireme::megatron
