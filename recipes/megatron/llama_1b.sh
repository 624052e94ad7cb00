#!/bin/bash

# A Llama of 1.2 billion parameters: grouped-query attention, RMSNorm, SwiGLU, rotary positions.

script_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
TOKENIZER_MODEL=${TOKENIZER_MODEL:-"$script_dir/tokenizer.model"}
DATA_PATH=${DATA_PATH:-"$script_dir/corpus_text_document"}
SAVE=${SAVE:-checkpoints/llama_1b}
: "${NUM_NODES:=1}"
MASTER_ADDR="${MASTER_ADDR:-127.0.0.1}"

DISTRIBUTED_ARGS=(
    --nproc-per-node 8
    --nnodes "$NUM_NODES"
    --rdzv-backend c10d
    --rdzv-endpoint "${MASTER_ADDR}:29500"
)

MODEL_ARGS=(
    --use-mcore-models
    --transformer-impl local
    --num-layers 16
    --hidden-size 2048
    --ffn-hidden-size 8192
    --num-attention-heads 32
    --group-query-attention
    --num-query-groups 8          # four queries share a key
    --kv-channels 64
    --seq-length 4096
    --max-position-embeddings 4096
    --position-embedding-type rope
    --rotary-base 500000
    --rotary-percent 1.0
    --no-position-embedding
    --normalization RMSNorm
    --norm-epsilon 1e-5
    --swiglu
    --disable-bias-linear
    --untie-embeddings-and-output-weights
    --attention-dropout 0.0
    --hidden-dropout 0.0
    --init-method-std 0.02
)

TRAINING_ARGS=(
    --micro-batch-size 1
    --global-batch-size 512
    --train-iters 100000
    --lr 3.0e-4
    --min-lr 3.0e-5
    --lr-decay-style cosine
    --lr-warmup-iters 2000
    --weight-decay 0.1
    --adam-beta1 0.9
    --adam-beta2 0.95
    --clip-grad 1.0
    --bf16
    --seed 4242
)

PARALLEL_ARGS=(
    --tensor-model-parallel-size 2
    --sequence-parallel
    --use-distributed-optimizer
    --overlap-grad-reduce
    --overlap-param-gather
)

DATA_ARGS=(
    --data-path "$DATA_PATH"
    --tokenizer-type Llama2Tokenizer
    --tokenizer-model "$TOKENIZER_MODEL"
    --split 99,1,0
)

LOG_ARGS=( --log-interval 10 --eval-interval 1000 --eval-iters 32 --log-throughput )

if [[ "${WANDB:-off}" != off ]]; then
    LOG_ARGS+=( --wandb-project "$WANDB" --wandb-exp-name llama_1b )
fi

if [ -n "$SAVE" ]; then
    LOG_ARGS+=( --save "$SAVE" --load "$SAVE" --save-interval 1000 --ckpt-format torch_dist )
fi

exec torchrun "${DISTRIBUTED_ARGS[@]}" pretrain_gpt.py \
    "${MODEL_ARGS[@]}" "${TRAINING_ARGS[@]}" "${PARALLEL_ARGS[@]}" \
    "${DATA_ARGS[@]}" "${LOG_ARGS[@]}" "$@"
