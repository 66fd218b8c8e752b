#include "kernels/cuda/cudnn.cuh"

#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/str.h"
}

static bool asked_for(void) {
    const char *wish = getenv("BRR_CUDNN");
    return wish && !strcmp(wish, "1");
}

#if __has_include(<cudnn.h>)
#include <cudnn.h>
#include <dlfcn.h>
#include <pthread.h>

/* The functions used, found in the library at run time. */
#define CUDNN_CALLS(X)                                                                                                             \
    X(cudnnGetVersion)                                                                                                             \
    X(cudnnGetErrorString)                                                                                                         \
    X(cudnnCreate)                                                                                                                 \
    X(cudnnDestroy)                                                                                                                \
    X(cudnnSetStream)                                                                                                              \
    X(cudnnBackendCreateDescriptor)                                                                                                \
    X(cudnnBackendDestroyDescriptor)                                                                                               \
    X(cudnnBackendSetAttribute)                                                                                                    \
    X(cudnnBackendGetAttribute)                                                                                                    \
    X(cudnnBackendFinalize)                                                                                                        \
    X(cudnnBackendExecute)

#define CUDNN_TEXT2(x) #x
#define CUDNN_TEXT(x)  CUDNN_TEXT2(x)
#define CUDNN_LIBRARY  "libcudnn.so." CUDNN_TEXT(CUDNN_MAJOR)

enum { PLANS = 256, PARTS = 64, CANDIDATES = 12, NOTES = 16, WORKSPACE_MOST = 256 << 20 };
enum { ID_X = 1, ID_W, ID_Y, ID_BIAS };

static struct {
#define CUDNN_POINTER(f) decltype(&f) f##_;
    CUDNN_CALLS(CUDNN_POINTER)
    bool loaded;
    char failure[200];
} api; /* filled once */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = dlopen(CUDNN_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        str_copy(api.failure, sizeof api.failure, dlerror());
        return;
    }
    api.loaded = true;
#define CUDNN_FIND(f)                                                                                                              \
    if (!(*(void **)&api.f##_ = dlsym(library, #f))) {                                                                             \
        str_format(api.failure, sizeof api.failure, "%s has no %s", CUDNN_LIBRARY, #f);                                            \
        api.loaded = false;                                                                                                        \
    }
    CUDNN_CALLS(CUDNN_FIND)
}

struct key {
    int64_t b, t, ci, co, k, pad, x_ld, y_ld;
    int32_t what, relu, bias, unused;
};

struct plan {
    struct key key;
    bool declined;
    int64_t workspace;
    cudnnBackendDescriptor_t plan, parts[PARTS]; /* parts: all that was made on the way */
    int n_parts;
};

/* A handle with its plans serves one stream at a time: cuDNN does not promise that a plan may run on two threads at once. */
struct cudnn {
    struct cudnn *next; /* while no stream has it */
    int ordinal;        /* of its device */
    cudnnHandle_t handle;
    int n_plans;
    struct plan plans[PLANS];
};
static struct cudnn *idle; /* those of streams that have closed */
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- descriptors: the first failure makes the rest do nothing ---- */

struct maker {
    struct plan *to;
    cudnnStatus_t status;
};

static cudnnBackendDescriptor_t make(struct maker *m, cudnnBackendDescriptorType_t type) {
    cudnnBackendDescriptor_t d = NULL;
    if (m->status == CUDNN_STATUS_SUCCESS && m->to->n_parts == PARTS)
        m->status = CUDNN_STATUS_INTERNAL_ERROR;
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = api.cudnnBackendCreateDescriptor_(type, &d);
    if (d)
        m->to->parts[m->to->n_parts++] = d;
    return d;
}

static void put(struct maker *m, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t n, const void *values) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = api.cudnnBackendSetAttribute_(d, name, type, n, values);
}

static void put_part(struct maker *m, cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendDescriptor_t part) {
    put(m, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static void finish(struct maker *m, cudnnBackendDescriptor_t d) {
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = api.cudnnBackendFinalize_(d);
}

/* One-dimensional data as images of height 1: (n, c, 1, t) with the channel contiguous. */
struct shape {
    cudnnDataType_t type;
    int64_t n, c, t, n_stride, t_stride;
};

/* id 0: virtual, the value between two operations of the graph. */
static cudnnBackendDescriptor_t tensor(struct maker *m, int64_t id, const struct shape *shape) {
    cudnnBackendDescriptor_t d = make(m, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    int64_t dim[] = {shape->n, shape->c, 1, shape->t}, stride[] = {shape->n_stride, 1, shape->n_stride, shape->t_stride};
    int64_t alignment = 16, name = id ? id : 100 + m->to->n_parts;
    bool between = !id;
    put(m, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &shape->type);
    put(m, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, dim);
    put(m, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    put(m, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &name);
    put(m, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    put(m, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &between);
    finish(m, d);
    return d;
}

static cudnnBackendDescriptor_t convolution(struct maker *m, const struct key *k) {
    cudnnBackendDescriptor_t d = make(m, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    int64_t dims = 2, ones[] = {1, 1}, before[] = {0, k->pad}, after[] = {0, k->k - 1 - k->pad};
    put(m, d, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, CUDNN_TYPE_INT64, 1, &dims);
    put(m, d, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    put(m, d, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
    put(m, d, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, CUDNN_TYPE_INT64, 2, before);
    put(m, d, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, CUDNN_TYPE_INT64, 2, after);
    put(m, d, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, CUDNN_TYPE_INT64, 2, ones);
    put(m, d, CUDNN_ATTR_CONVOLUTION_DILATIONS, CUDNN_TYPE_INT64, 2, ones);
    finish(m, d);
    return d;
}

/* y = x + b, or max(x, 0) without b. */
static cudnnBackendDescriptor_t pointwise(struct maker *m, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t b,
                                          cudnnBackendDescriptor_t y) {
    cudnnBackendDescriptor_t what = make(m, CUDNN_BACKEND_POINTWISE_DESCRIPTOR), op;
    cudnnPointwiseMode_t mode = b ? CUDNN_POINTWISE_ADD : CUDNN_POINTWISE_RELU_FWD;
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    put(m, what, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
    put(m, what, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &type);
    finish(m, what);
    op = make(m, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    put_part(m, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
    put_part(m, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b)
        put_part(m, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, b);
    put_part(m, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    finish(m, op);
    return op;
}

/* The attribute names of the three convolution operations, in one order. */
struct operation {
    cudnnBackendDescriptorType_t type;
    cudnnBackendAttributeName_t alpha, beta, how, x, w, y;
};
static const struct operation operations[] = {
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
    {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
     CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
};

/* The convolution, then bias and ReLU where wanted; values between them in F32. */
static cudnnBackendDescriptor_t graph_of(struct maker *m, cudnnHandle_t handle, const struct key *k) {
    const struct operation *o = &operations[k->what];
    struct shape x = {CUDNN_DATA_BFLOAT16, k->b, k->ci, k->t, k->t * k->x_ld, k->x_ld};
    struct shape y = {CUDNN_DATA_BFLOAT16, k->b, k->co, k->t, k->t * k->y_ld, k->y_ld};
    struct shape w = {
        k->what == CUDNN_FILTER_GRADIENT ? CUDNN_DATA_FLOAT : CUDNN_DATA_BFLOAT16, k->co, k->ci, k->k, k->k * k->ci, k->ci};
    struct shape between = {CUDNN_DATA_FLOAT, k->b, k->co, k->t, k->t * k->co, k->co};
    struct shape bias = {CUDNN_DATA_FLOAT, 1, k->co, 1, k->co, k->co};
    cudnnBackendDescriptor_t ops[3], at, next, out = tensor(m, ID_Y, &y), op = make(m, o->type), graph;
    int64_t n = 0, left = (k->bias != 0) + (k->relu != 0);
    float one = 1, zero = 0;
    put(m, op, o->alpha, CUDNN_TYPE_FLOAT, 1, &one);
    put(m, op, o->beta, CUDNN_TYPE_FLOAT, 1, &zero);
    put_part(m, op, o->how, convolution(m, k));
    put_part(m, op, o->x, tensor(m, ID_X, &x));
    put_part(m, op, o->w, tensor(m, ID_W, &w));
    at = left ? tensor(m, 0, &between) : out;
    put_part(m, op, o->y, at);
    finish(m, op);
    ops[n++] = op;
    if (k->bias) {
        next = --left ? tensor(m, 0, &between) : out;
        ops[n++] = pointwise(m, at, tensor(m, ID_BIAS, &bias), next);
        at = next;
    }
    if (k->relu)
        ops[n++] = pointwise(m, at, NULL, out);
    graph = make(m, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    put(m, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    put(m, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, n, ops);
    finish(m, graph);
    return graph;
}

/* Whether an engine gives the same bits every time. */
static bool repeats(struct maker *m, cudnnBackendDescriptor_t config) {
    cudnnBackendDescriptor_t engine = make(m, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendNumericalNote_t notes[NOTES];
    int64_t n = 0;
    if (m->status != CUDNN_STATUS_SUCCESS)
        return false;
    if (api.cudnnBackendGetAttribute_(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine) !=
            CUDNN_STATUS_SUCCESS ||
        api.cudnnBackendGetAttribute_(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &n, notes) !=
            CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < n && i < NOTES; i++)
        if (notes[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC || notes[i] == CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS ||
            notes[i] == CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION)
            return false;
    return true;
}

/* The first of the library's proposals that repeats and whose workspace is modest. */
static void choose(struct maker *m, cudnnHandle_t handle, cudnnBackendDescriptor_t graph) {
    cudnnBackendDescriptor_t heuristic = make(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), configs[CANDIDATES];
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    int64_t n = 0, bytes = 0, one;
    put_part(m, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    put(m, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finish(m, heuristic);
    for (int i = 0; i < CANDIDATES; i++)
        configs[i] = make(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (m->status == CUDNN_STATUS_SUCCESS)
        m->status = api.cudnnBackendGetAttribute_(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                                  CANDIDATES, &n, configs);
    for (int64_t i = 0; m->status == CUDNN_STATUS_SUCCESS && i < n && i < CANDIDATES && !m->to->plan; i++) {
        struct maker trial = *m;
        if (!repeats(&trial, configs[i]))
            continue;
        cudnnBackendDescriptor_t plan = make(&trial, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        put(&trial, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
        put_part(&trial, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs[i]);
        finish(&trial, plan);
        if (trial.status == CUDNN_STATUS_SUCCESS &&
            api.cudnnBackendGetAttribute_(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &one, &bytes) ==
                CUDNN_STATUS_SUCCESS &&
            bytes <= WORKSPACE_MOST) {
            m->to->plan = plan;
            m->to->workspace = bytes;
        }
    }
}

static void forget(struct plan *p) {
    for (int i = p->n_parts - 1; i >= 0; i--)
        api.cudnnBackendDestroyDescriptor_(p->parts[i]);
    p->n_parts = 0;
}

static void release(struct cudnn *c) {
    for (int i = 0; i < c->n_plans; i++)
        forget(&c->plans[i]);
    if (c->handle)
        api.cudnnDestroy_(c->handle);
    free(c);
}

/* One that an earlier stream of the device has left, with its plans unless they are many by now; NULL: none. */
static struct cudnn *take_idle(int ordinal) {
    pthread_mutex_lock(&idle_lock);
    struct cudnn **at = &idle;
    while (*at && (*at)->ordinal != ordinal)
        at = &(*at)->next;
    struct cudnn *c = *at;
    if (c)
        *at = c->next;
    pthread_mutex_unlock(&idle_lock);
    if (!c || c->n_plans <= PLANS / 2)
        return c;
    for (int i = 0; i < c->n_plans; i++)
        forget(&c->plans[i]);
    memset(c->plans, 0, sizeof c->plans);
    c->n_plans = 0;
    return c;
}

static int open_library(struct stream *s, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    pthread_once(&once, load);
    if (!api.loaded)
        return err_set(err, ERR_UNSUPPORTED, "%s: BRR_CUDNN=1, but cuDNN cannot be loaded (%s); install cuDNN %d, or unset it",
                       s->device->info.name, api.failure, CUDNN_MAJOR);
    int ordinal = 0;
    cudaGetDevice(&ordinal);
    struct cudnn *c = take_idle(ordinal);
    if (!c && !(c = (struct cudnn *)calloc(1, sizeof *c)))
        return err_set(err, ERR_EXHAUSTED, "%s: out of memory", s->device->info.name);
    c->ordinal = ordinal;
    cudnnStatus_t status = c->handle ? CUDNN_STATUS_SUCCESS : api.cudnnCreate_(&c->handle);
    if (status == CUDNN_STATUS_SUCCESS)
        status = api.cudnnSetStream_(c->handle, cs->stream);
    if (status != CUDNN_STATUS_SUCCESS) {
        release(c); /* else the next op would take it for started, on no stream */
        return err_set(err, ERR_INTERNAL, "%s: starting cuDNN: %s", s->device->info.name, api.cudnnGetErrorString_(status));
    }
    cs->cudnn = c;
    return 0;
}

static struct key key_of(const struct cudnn_convolution *c) {
    struct key k;
    memset(&k, 0, sizeof k); /* compared as bytes */
    k.b = c->b;
    k.t = c->t;
    k.ci = c->ci;
    k.co = c->co;
    k.k = c->k;
    k.pad = c->pad;
    k.x_ld = c->x_ld;
    k.y_ld = c->y_ld;
    k.what = c->what;
    k.relu = c->relu;
    k.bias = c->bias != NULL;
    return k;
}

static bool suits(const struct cudnn_convolution *c) {
    const void *data[] = {c->x, c->w, c->y, c->bias};
    for (int i = 0; i < 4; i++)
        if ((uintptr_t)data[i] % 16)
            return false;
    return c->ci % 8 == 0 && c->co % 8 == 0 && c->x_ld % 8 == 0 && c->y_ld % 8 == 0;
}

static struct plan *plan_for(struct cudnn *c, const struct key *key) {
    for (int i = 0; i < c->n_plans; i++)
        if (!memcmp(&c->plans[i].key, key, sizeof *key))
            return &c->plans[i];
    if (c->n_plans == PLANS)
        return NULL;
    struct plan *p = &c->plans[c->n_plans++];
    p->key = *key;
    struct maker m = {p, CUDNN_STATUS_SUCCESS};
    choose(&m, c->handle, graph_of(&m, c->handle, key));
    p->declined = !p->plan;
    if (p->declined)
        forget(p);
    return p;
}

int cudnn_takes(struct stream *s, const struct cudnn_convolution *c, bool *ret, size_t *ret_workspace, struct err *err) {
    struct cuda_stream *cs = cuda_stream(s);
    *ret = false;
    *ret_workspace = 0;
    if (!asked_for() || !suits(c))
        return 0;
    int rc = cs->cudnn ? 0 : open_library(s, err);
    if (rc)
        return rc;
    struct key key = key_of(c);
    const struct plan *p = plan_for(cs->cudnn, &key);
    *ret = p && !p->declined;
    *ret_workspace = *ret ? (size_t)p->workspace : 0;
    return 0;
}

int cudnn_run(struct stream *s, const struct cudnn_convolution *c, void *workspace, struct err *err) {
    struct cudnn *lib = cuda_stream(s)->cudnn;
    struct key key = key_of(c);
    const struct plan *p = plan_for(lib, &key);
    int64_t ids[] = {ID_X, ID_W, ID_Y, ID_BIAS}, n = c->bias ? 4 : 3;
    const void *data[] = {c->x, c->w, c->y, c->bias};
    cudnnBackendDescriptor_t pack = NULL;
    cudnnStatus_t status = api.cudnnBackendCreateDescriptor_(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = api.cudnnBackendSetAttribute_(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    if (status == CUDNN_STATUS_SUCCESS)
        status = api.cudnnBackendSetAttribute_(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, data);
    if (status == CUDNN_STATUS_SUCCESS)
        status = api.cudnnBackendSetAttribute_(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        status = api.cudnnBackendFinalize_(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = api.cudnnBackendExecute_(lib->handle, p->plan, pack);
    if (pack)
        api.cudnnBackendDestroyDescriptor_(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        return 0;
    cudaError_t below = cudaGetLastError();
    if (below != cudaSuccess)
        return cuda_failed(s->device, "a cuDNN convolution", below, err);
    return err_set(err, ERR_INTERNAL, "%s: a cuDNN convolution of (%lld,%lld,%lld) to %lld channels, K %lld, failed: %s",
                   s->device->info.name, (long long)c->b, (long long)c->t, (long long)c->ci, (long long)c->co, (long long)c->k,
                   api.cudnnGetErrorString_(status));
}

void cudnn_close(struct cudnn *c) {
    if (!c)
        return;
    if (api.cudnnSetStream_(c->handle, NULL) != CUDNN_STATUS_SUCCESS) {
        release(c);
        return;
    }
    pthread_mutex_lock(&idle_lock);
    c->next = idle;
    idle = c;
    pthread_mutex_unlock(&idle_lock);
}

void cudnn_describe(struct device_part *part) {
    pthread_once(&once, load);
    size_t version = api.loaded ? api.cudnnGetVersion_() : 0;
    int major = (int)(version / 10000), minor = (int)(version / 100 % 100), patch = (int)(version % 100);
    str_copy(part->name, sizeof part->name, "cuDNN");
    part->fits = !asked_for() || major == CUDNN_MAJOR;
    if (api.loaded)
        str_format(part->version, sizeof part->version, "%d.%d.%d%s", major, minor, patch, asked_for() ? "" : ", not enabled");
    else
        str_copy(part->version, sizeof part->version, asked_for() ? "" : "absent, not enabled");
    if (!part->fits)
        str_format(part->fix, sizeof part->fix, "BRR_CUDNN=1 needs cuDNN %d: install it, or unset BRR_CUDNN", CUDNN_MAJOR);
}
#else /* built without cuDNN's headers: convolutions are those of conv.cu */
int cudnn_takes(struct stream *s, const struct cudnn_convolution *c, bool *ret, size_t *ret_workspace, struct err *err) {
    (void)c;
    *ret = false;
    *ret_workspace = 0;
    return asked_for() ? err_set(err, ERR_UNSUPPORTED, "%s: BRR_CUDNN=1, but this build was made without cuDNN; unset it",
                                 s->device->info.name)
                       : 0;
}
int cudnn_run(struct stream *s, const struct cudnn_convolution *c, void *workspace, struct err *err) {
    (void)c, (void)workspace;
    return err_set(err, ERR_UNSUPPORTED, "%s: this build was made without cuDNN", s->device->info.name);
}
void cudnn_close(struct cudnn *c) { (void)c; }
void cudnn_describe(struct device_part *part) {
    str_copy(part->name, sizeof part->name, "cuDNN");
    str_copy(part->version, sizeof part->version, "not part of this build");
    part->fits = !asked_for();
    str_copy(part->fix, sizeof part->fix, part->fits ? "" : "unset BRR_CUDNN, or build where cuDNN's headers are");
}
#endif
