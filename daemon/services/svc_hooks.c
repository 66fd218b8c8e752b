/* brr.v1.Hooks: a test alarm for the hooks of daemon.yaml, on libuv's thread pool. */

#include "brr/v1/hooks.pb-c.h"
#include "daemon/services/convert.h"
#include "daemon/services/services.h"

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
    if (!offload_good(work))
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

static int test(struct rpc_call *call, const void *message, struct err *err) {
    const Brr__V1__TestHooksRequest *in = message;
    const struct hooks *hooks = services_of(call)->hooks;
    int first = 0, end = hooks_count(hooks);
    while (*in->name && first < end && strcmp(hooks_at(hooks, first)->name, in->name) != 0)
        first++;
    if (first == end)
        return err_set(err, ERR_NOT_FOUND, "alarms.hooks of the daemon's configuration has no hook%s%.60s", *in->name ? " " : "",
                       in->name);
    struct hook_test *t = offload_new(call, OFFLOAD_DOCTOR, sizeof *t, NULL, err);
    if (!t)
        return err->code;
    t->hooks = hooks;
    t->first = first;
    t->end = *in->name ? first + 1 : end;
    offload_start(&t->work, test_all, tested);
    return 0;
}

const struct rpc_method svc_hooks[] = {
    {RPC_METHOD("/brr.v1.Hooks/Test", ROLE_ADMIN, brr__v1__test_hooks_request, test), .end = offload_end},
    {.path = NULL},
};
