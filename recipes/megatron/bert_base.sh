#!/bin/sh
#SBATCH --job-name=bert-base
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8     # one task for each device
#SBATCH --time=24:00:00
#
# BERT base under SLURM, with whole-word masking and the sentence-order head.

DATA_HOME=${DATA_HOME:-/scratch/corpora}
RUN=bert-base
OUT="runs/${RUN}"
mkdir -p "$OUT/tensorboard"

precision=bf16
if [ "$precision" = bf16 ]; then
    MIXED="--bf16 --attention-softmax-in-fp32"
else
    MIXED="--fp16 --initial-loss-scale 65536"
fi

BERT_ARGS="--num-layers 12 --hidden-size 768 --num-attention-heads 12"
BERT_ARGS="$BERT_ARGS --seq-length 512 --max-position-embeddings 512"
BERT_ARGS="$BERT_ARGS --mask-prob 0.15 --short-seq-prob 0.1"

TRAINING="--micro-batch-size 16 --global-batch-size 256 --train-samples 64_000_000"
TRAINING="$TRAINING --lr 1e-4 --min-lr 1e-5 --lr-decay-style linear --lr-warmup-samples 640000"
TRAINING="$TRAINING --weight-decay 1e-2 --clip-grad 1.0 --adam-beta2 0.98 --adam-eps 1e-6"

LAUNCH="python -u pretrain_bert.py ${BERT_ARGS} ${TRAINING} ${MIXED} \
    --data-path 0.7 ${DATA_HOME}/wiki_text_sentence 0.3 ${DATA_HOME}/books_text_sentence \
    --tokenizer-type BertWordPieceLowerCase --vocab-file ${DATA_HOME}/bert-vocab.txt \
    --split 98,1,1 --num-workers 4 --use-distributed-optimizer --overlap-grad-reduce \
    --log-interval 10 --eval-iters 20 --eval-interval 500 --save-interval 2000 \
    --save ${OUT} --load ${OUT} --tensorboard-dir ${OUT}/tensorboard \
    --distributed-timeout-minutes 30"

srun --output="$OUT/log.txt" bash -c "${LAUNCH}"
