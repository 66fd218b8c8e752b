/* brr_scan_nif: libbrr_scan's selective scan for Erlang and Elixir. It computes on dirty schedulers, one call at a time, with the
 * threads of the library (BRR_SCAN_THREADS; 0 or unset: all). Tensors are binaries of little-endian float32, channels last. */
#include <erl_nif.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "brr_scan.h"

static ErlNifMutex *lock; /* a brr_scan is used by one thread at a time */
static brr_scan *scan;

static ERL_NIF_TERM failure(ErlNifEnv *env, const char *text) {
    return enif_make_tuple2(env, enif_make_atom(env, "error"), enif_make_string(env, text, ERL_NIF_LATIN1));
}

/* A dense tensor over a binary, which must have its size. */
static bool take(ErlNifEnv *env, ERL_NIF_TERM term, const struct brr_scan_tensor *shape, struct brr_scan_tensor *ret) {
    ErlNifBinary bytes;
    size_t n = sizeof(float);
    for (int i = 0; i < shape->rank; i++)
        n *= (size_t)shape->dim[i];
    if (!enif_inspect_binary(env, term, &bytes) || bytes.size != n)
        return false;
    *ret = *shape;
    ret->data = bytes.data;
    return true;
}

/* Counts what is there. */
static bool find_option(ErlNifEnv *env, ERL_NIF_TERM options, const char *name, ERL_NIF_TERM *ret, size_t *found) {
    const bool there = enif_get_map_value(env, options, enif_make_atom(env, name), ret) != 0;
    *found += there;
    return there;
}

static bool take_number(ErlNifEnv *env, ERL_NIF_TERM term, float *ret) {
    ErlNifSInt64 whole = 0;
    double number = 0;
    const bool fine = enif_get_double(env, term, &number) || enif_get_int64(env, term, &whole);
    *ret = fine && whole ? (float)whole : fine ? (float)number : 0;
    return fine;
}

static bool take_flag(ErlNifEnv *env, ERL_NIF_TERM term, bool *ret) {
    *ret = enif_is_identical(term, enif_make_atom(env, "true"));
    return *ret || enif_is_identical(term, enif_make_atom(env, "false"));
}

/* The options that are there: tensors, softplus and the limits of a step. Returns what is wrong, or NULL. */
static const char *take_options(ErlNifEnv *env, ERL_NIF_TERM options, struct brr_scan_selective *a) {
    const struct brr_scan_tensor channels = {.rank = 1, .dim = {a->u.dim[2]}};
    const struct brr_scan_tensor states = {.rank = 3, .dim = {a->u.dim[0], a->u.dim[2], a->A.dim[1]}};
    const struct {
        const char *name;
        const struct brr_scan_tensor *shape;
        struct brr_scan_tensor *to;
    } tensors[] = {
        {"d", &channels, &a->D}, {"delta_bias", &channels, &a->delta_bias}, {"z", &a->u, &a->z}, {"h0", &states, &a->h0}};
    const ERL_NIF_TERM *pair;
    ERL_NIF_TERM value;
    bool softplus = false, state = false;
    size_t known = 0, given = 0;
    int n;
    for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
        if (find_option(env, options, tensors[i].name, &value, &known) && !take(env, value, tensors[i].shape, tensors[i].to))
            return tensors[i].name;
    if (find_option(env, options, "softplus", &value, &known) && !take_flag(env, value, &softplus))
        return "softplus (true or false)";
    if (find_option(env, options, "state", &value, &known) && !take_flag(env, value, &state))
        return "state (true or false)";
    if (find_option(env, options, "clamp", &value, &known) &&
        (!enif_get_tuple(env, value, &n, &pair) || n != 2 || !take_number(env, pair[0], &a->clamp_lo) ||
         !take_number(env, pair[1], &a->clamp_hi) || !(a->clamp_hi > 0 && a->clamp_lo <= a->clamp_hi)))
        return "clamp ({Low, High}, High above 0 and not below Low)";
    a->softplus = softplus;
    if (state)
        a->hT = states;
    enif_get_map_size(env, options, &given);
    return given == known ? NULL : "an option (d, delta_bias, z, h0, softplus, state, clamp)";
}

static bool take_shape(ErlNifEnv *env, ERL_NIF_TERM term, ErlNifSInt64 ret[4]) {
    const ERL_NIF_TERM *parts;
    int n;
    bool fine = enif_get_tuple(env, term, &n, &parts) && n == 4;
    for (int i = 0; fine && i < 4; i++)
        fine = enif_get_int64(env, parts[i], &ret[i]) && ret[i] > 0 && ret[i] <= INT_MAX;
    return fine && (double)ret[0] * (double)ret[2] * (double)(ret[1] + ret[3]) < 0x1p33; /* 32 GB of output */
}

/* selective(U, Delta, A, B, C, {Batch, Length, Channels, States}, Options) -> Out | {error, Text}. With state => true the state
 * after (Batch, Channels, States) follows the output in the binary. */
static ERL_NIF_TERM selective(ErlNifEnv *env, int argc, const ERL_NIF_TERM argv[]) {
    static const char *const names[] = {"u", "delta", "a", "b", "c"};
    struct brr_scan_selective a = {.size = sizeof a};
    struct brr_scan_error err;
    ErlNifSInt64 n[4];
    ErlNifBinary out;
    char text[240];
    if (argc != 7 || !take_shape(env, argv[5], n) || !enif_is_map(env, argv[6]))
        return failure(env, "expected five binaries, {Batch, Length, Channels, States} and a map of options");
    const struct brr_scan_tensor rows = {.rank = 3, .dim = {n[0], n[1], n[2]}}, groups = {.rank = 4, .dim = {n[0], n[1], 1, n[3]}};
    const struct brr_scan_tensor A = {.rank = 2, .dim = {n[2], n[3]}}, *const shapes[] = {&rows, &rows, &A, &groups, &groups};
    struct brr_scan_tensor *const to[] = {&a.u, &a.delta, &a.A, &a.B, &a.C};
    const char *wrong = NULL;
    for (int i = 0; i < 5 && !wrong; i++)
        wrong = take(env, argv[i], shapes[i], to[i]) ? NULL : names[i];
    if (wrong || (wrong = take_options(env, argv[6], &a))) {
        enif_snprintf(text, sizeof text, "%s does not fit: expected float32 of batch %ld, length %ld, channels %ld, states %ld",
                      wrong, (long)n[0], (long)n[1], (long)n[2], (long)n[3]);
        return failure(env, text);
    }
    const size_t whole = (size_t)(n[0] * n[1] * n[2]), state = a.hT.rank ? (size_t)(n[0] * n[2] * n[3]) : 0;
    if (!enif_alloc_binary((whole + state) * sizeof(float), &out))
        return failure(env, "out of memory for the output");
    float *data = (float *)(void *)out.data;
    a.out = rows;
    a.out.data = data;
    a.hT.data = state ? data + whole : NULL;
    enif_mutex_lock(lock);
    const int rc = brr_scan_selective(scan, &a, &err);
    enif_mutex_unlock(lock);
    if (rc) {
        enif_release_binary(&out);
        return failure(env, err.message);
    }
    return enif_make_binary(env, &out);
}

static int load_nif(ErlNifEnv *env, void **data, ERL_NIF_TERM info) {
    const char *threads = getenv("BRR_SCAN_THREADS");
    (void)env, (void)data, (void)info;
    lock = enif_mutex_create((char[]){"brr_scan"});
    return !lock || brr_scan_open("cpu", threads ? (int)strtol(threads, NULL, 10) : 0, &scan, NULL);
}

static ErlNifFunc functions[] = {{"selective", 7, selective, ERL_NIF_DIRTY_JOB_CPU_BOUND}};
ERL_NIF_INIT(brr_scan, functions, load_nif, NULL, NULL, NULL)
