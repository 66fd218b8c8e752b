/* test_gpu_exchange: four GPUs of one machine exchange by NCCL, as threads: the sum of gradients has the bits of one rank, a rank
 * that does not come is noticed, and ranks that share a GPU exchange through host memory. Needs cuda:0 to cuda:3 (emulated: four
 * devices), else exits 77. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "kernels/comm.h"
#include "nn/reduction.h"
#include "tests/seed.h"

enum { RANKS = 4, LEAVES = 8, N = 1001, BUFFERS = 5, PATIENCE_MS = 600000, SHORT_MS = 300 };

static int failures;
static void check(bool ok, const char *what, const char *more) {
    failures += !ok;
    printf("%-6s %s%s%s\n", ok ? "ok" : "FAILED", what, *more ? ": " : "", more);
}

struct rank {
    struct world world;
    struct param_set params;
    struct device *device;
    struct stream *stream;
    const char *name;
    struct reduction *reduction;
    struct comm *comm;
    void *memory;
    char way[64];
    float sum[N], running[BUFFERS];
    int rc, second_rc;
    struct err err;
    pthread_t thread;
};
static float gradients[LEAVES][N], statistics[LEAVES][BUFFERS];

static void draw(void) {
    uint64_t seed = test_seed();
    for (int leaf = 0; leaf < LEAVES; leaf++) {
        struct rng rng;
        rng_init(&rng, seed, RNG_SYNTH, (uint32_t)leaf);
        for (int i = 0; i < N; i++)
            gradients[leaf][i] = (float)rng_normal(&rng);
        for (int i = 0; i < BUFFERS; i++)
            statistics[leaf][i] = (float)rng_normal(&rng);
    }
}

static int open_rank(struct rank *r) {
    int rc = device_open(r->name, 0, &r->device, &r->err);
    return rc ? rc : stream_open(r->device, STREAM_NORMAL, &r->stream, &r->err);
}

static void close_rank(struct rank *r) {
    reduction_free(r->reduction);
    comm_close(r->comm);
    if (r->device)
        device_free(r->device, r->memory);
    param_set_done(&r->params);
    stream_close(r->stream);
    device_close(r->device);
    world_close(&r->world, !r->rc);
}

static void on_ranks(struct rank *ranks, int n, void *(*work)(void *)) {
    for (int i = 0; i < n; i++)
        pthread_create(&ranks[i].thread, NULL, work, &ranks[i]);
    for (int i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
}

static int make_params(struct rank *r) {
    const struct param_spec weight = {PARAM_WEIGHT, 1, {N}}, buffer = {PARAM_BUFFER, 1, {BUFFERS}};
    int rc;
    param_set_init(&r->params);
    if ((rc = param_add(&r->params, &weight, &r->err, "w")) || (rc = param_add(&r->params, &buffer, &r->err, "b")))
        return rc;
    return param_set_alloc(&r->params, r->device, true, &r->err);
}

static int add_leaf(struct rank *r, int leaf, int i) {
    int rc;
    if ((rc = stream_to_device(r->stream, r->params.grad, gradients[leaf], sizeof gradients[leaf], &r->err)) ||
        (rc = stream_to_device(r->stream, reduction_leaf_statistics(r->reduction), statistics[leaf], sizeof statistics[leaf],
                               &r->err)))
        return rc;
    return reduction_add(r->reduction, r->stream, i, &r->err);
}

static int reduce(struct rank *r) {
    const struct reduction_config config = {&r->params, &r->world, LEAVES, PATIENCE_MS, PATIENCE_MS};
    const int share = LEAVES / r->world.size;
    int rc;
    if ((rc = open_rank(r)) || (rc = make_params(r)) || (rc = reduction_new(r->device, &config, &r->reduction, &r->err)))
        return rc;
    snprintf(r->way, sizeof r->way, "%s", reduction_way(r->reduction) ? reduction_way(r->reduction) : "");
    for (int i = 0; i < share; i++)
        if ((rc = add_leaf(r, r->world.rank * share + i, i)))
            return rc;
    if ((rc = reduction_exchange(r->reduction, r->stream, &r->err)) ||
        (rc = reduction_apply_statistics(r->reduction, r->stream, &r->err)) ||
        (rc = stream_to_host(r->stream, r->sum, r->params.grad, sizeof r->sum, &r->err)) ||
        (rc = stream_to_host(r->stream, r->running, r->params.buffers, sizeof r->running, &r->err)))
        return rc;
    return stream_sync(r->stream, &r->err);
}

static void *run_reduction(void *arg) {
    struct rank *r = arg;
    r->rc = reduce(r);
    return NULL;
}

static void join(struct rank *ranks, int n, bool apart) {
    static const char *const names[RANKS] = {"cuda:0", "cuda:1", "cuda:2", "cuda:3"};
    struct world worlds[RANKS];
    memset(ranks, 0, RANKS * sizeof *ranks);
    if (world_threads(worlds, n, NULL))
        abort();
    for (int i = 0; i < n; i++) {
        ranks[i].world = worlds[i];
        ranks[i].name = names[apart ? i : 0];
    }
}

/* Ranks of which each pair has as many leaves in common as the binary tree says. */
static void sums_have_the_bits_of_one_rank(void) {
    static struct rank one[RANKS], many[RANKS];
    join(one, 1, true);
    on_ranks(one, 1, run_reduction);
    check(!one[0].rc, "one rank", one[0].err.message);
    for (int n = 2; n <= RANKS; n *= 2) {
        join(many, n, true);
        on_ranks(many, n, run_reduction);
        if (!getenv("BRR_EMULATED_DEVICES") && !strcmp(many[0].way, "host memory")) {
            printf("skipped: hardware: no NCCL of 2.14 or newer (libnccl.so.2)\n");
            exit(77);
        }
        for (int i = 0; i < n; i++) {
            check(!many[i].rc && !strncmp(many[i].way, "NCCL ", 5), "the rank exchanges by NCCL",
                  many[i].rc ? many[i].err.message : many[i].way);
            check(!memcmp(many[i].sum, one[0].sum, sizeof one[0].sum), "its sum has the bits of one rank", "");
            check(!memcmp(many[i].running, one[0].running, sizeof one[0].running), "and so have its running statistics", "");
            close_rank(&many[i]);
        }
    }
    close_rank(&one[0]);
}

static void ranks_that_share_a_gpu_exchange_through_host_memory(void) {
    static struct rank ranks[RANKS];
    join(ranks, 2, false);
    on_ranks(ranks, 2, run_reduction);
    for (int i = 0; i < 2; i++)
        check(!ranks[i].rc && !strcmp(ranks[i].way, "host memory"), "two ranks of one GPU",
              ranks[i].rc ? ranks[i].err.message : ranks[i].way);
    check(!memcmp(ranks[0].sum, ranks[1].sum, sizeof ranks[0].sum), "they have the same sum", "");
    close_rank(&ranks[0]);
    close_rank(&ranks[1]);
}

/* All have opened the exchange; rank 1 then does not come to it. */
static int wait_in_vain(struct rank *r) {
    const struct comm_config config = {&r->world, sizeof r->sum, PATIENCE_MS};
    int rc;
    if ((rc = open_rank(r)) || (rc = device_alloc(r->device, 2 * sizeof r->sum, &r->memory, &r->err)) ||
        (rc = comm_open(r->device, &config, &r->comm, &r->err)) || r->world.rank)
        return rc;
    const struct world_parts parts = {r->memory, sizeof r->sum, (float *)r->memory + N, sizeof r->sum};
    r->rc = comm_exchange(r->comm, r->stream, 1, &parts, SHORT_MS, &r->err);
    r->second_rc = comm_exchange(r->comm, r->stream, 1, &parts, SHORT_MS, NULL);
    return 0;
}

static void *run_in_vain(void *arg) {
    struct rank *r = arg;
    int rc = wait_in_vain(r);
    r->rc = rc ? rc : r->rc;
    return NULL;
}

static void a_rank_that_does_not_come_is_noticed(void) {
    static struct rank ranks[RANKS];
    join(ranks, 2, true);
    on_ranks(ranks, 2, run_in_vain);
    check(ranks[0].rc == ERR_UNAVAILABLE && strstr(ranks[0].err.message, "did not come"), "the exchange ends",
          ranks[0].err.message);
    check(ranks[0].second_rc == ERR_UNAVAILABLE && ranks[0].world.broken, "and no other one begins", "");
    check(!ranks[1].rc, "the other rank", ranks[1].err.message);
    close_rank(&ranks[0]);
    close_rank(&ranks[1]);
}

int main(void) {
    struct device_info info;
    struct err err = {0};
    if (device_probe("cuda:3", &info, &err)) {
        printf("skipped: hardware: no GPU cuda:3: %s\n", err.message);
        return 77;
    }
    draw();
    sums_have_the_bits_of_one_rank();
    ranks_that_share_a_gpu_exchange_through_host_memory();
    a_rank_that_does_not_come_is_noticed();
    printf("%d failed\n", failures);
    return failures ? 1 : 0;
}
