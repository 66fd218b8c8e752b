/* brr.v1.Hooks: a test alarm for the hooks of daemon.yaml, on libuv's thread pool. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "brr/v1/hooks.pb-c.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/offload.h"
#include "daemon/rpc/services.h"

struct hook_test {
    struct offload work;
    const struct hooks *hooks;
    int first, end; /* of the hooks */
    char errors[HOOKS_MAX][800];
    double seconds[HOOKS_MAX];
};

static void test_all(struct offload *work) {
    struct hook_test *t = (struct hook_test *)work;
    for (int i = t->first; i < t->end; i++) {
        struct err err;
        double start_s = clock_s();
        if (hooks_test(t->hooks, i, &work->gone, &err))
            err_text(&err, t->errors[i], sizeof t->errors[i]);
        t->seconds[i] = clock_s() - start_s;
    }
}

static void tested(struct offload *work) {
    struct hook_test *t = (struct hook_test *)work;
    Brr__V1__TestHooksResponse out = BRR__V1__TEST_HOOKS_RESPONSE__INIT;
    Brr__V1__HookResult results[HOOKS_MAX], *list[HOOKS_MAX];
    if (!work->call)
        return;
    for (int i = t->first; i < t->end; i++) {
        Brr__V1__HookResult *r = &results[out.n_results];
        brr__v1__hook_result__init(r);
        r->name = (char *)(uintptr_t)hooks_at(t->hooks, i)->name;
        r->error = t->errors[i];
        r->seconds = t->seconds[i];
        list[out.n_results++] = r;
    }
    out.results = list;
    convert_answer(work->call, &out.base);
}

static void test(struct rpc_call *call, const uint8_t *data, size_t len) {
    Brr__V1__TestHooksRequest *in = convert_unpack(call, &brr__v1__test_hooks_request__descriptor, data, len);
    const struct hooks *hooks = services_of(call)->hooks;
    struct err err;
    if (!in)
        return;
    int first = 0, end = hooks_count(hooks);
    while (*in->name && first < end && strcmp(hooks_at(hooks, first)->name, in->name) != 0)
        first++;
    if (first == end) {
        err_set(&err, ERR_NOT_FOUND, "alarms.hooks of the daemon's configuration has no hook%s%.60s", *in->name ? " " : "",
                in->name);
        rpc_finish(call, &err);
        return;
    }
    struct hook_test *t = offload_new(call, OFFLOAD_DOCTOR, sizeof *t, NULL);
    if (!t)
        return;
    t->hooks = hooks;
    t->first = first;
    t->end = *in->name ? first + 1 : end;
    offload_start(&t->work, test_all, tested);
}

const struct rpc_method svc_hooks[] = {
    {.path = "/brr.v1.Hooks/Test", .role = ROLE_ADMIN, .max_message = RPC_CONTROL_BYTES, .message = test, .end = offload_end},
};
const size_t svc_hooks_count = sizeof svc_hooks / sizeof *svc_hooks;
