#include "daemon/burst/networks.h"

#include "base/log.h"
#include "base/principal.h"
#include "daemon/burst/network.h"

struct networks {
    struct networks_config config;
    struct stream *stream;
    struct network **items; /* (config.most) in the order of their turns */
    int count;
    int64_t picked;  /* names picked so far */
    char device[32]; /* its name */
    struct network_metrics metrics;
    struct metric *number, *bytes;
    struct message *left; /* answered, and nobody took them */
};

/* ---- orders ---------------------------------------------------------------------------------------------------- */

struct network_order *network_order_new(enum network_order_kind kind, const char *name) {
    struct network_order *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->message.kind = (int)kind;
    o->failed = -1;
    if (!str_copy(o->name, sizeof o->name, name))
        o->name[0] = '\0'; /* no network has a name that long */
    return o;
}

void network_order_free(struct network_order *o) {
    if (!o)
        return;
    connectome_free(o->net);
    burst_state_done(&o->state);
    FREE_MEMBERS(*o, injections, changes);
    observer_release(o->observer);
    for (int i = 0; i < o->n_infos; i++)
        free(o->infos[i].areas);
    FREE_MEMBERS(*o, infos, frames, ids);
    free(o);
}

static struct network_order *order_of(struct message *m) { return (struct network_order *)m; /* message is the first member */ }

static void answer(struct networks *n, struct network_order *o) {
    if (!o->done) {
        network_order_free(o);
    } else if (!mailbox_post_wait(n->config.answers, &o->message, -1)) {
        o->message.next = n->left;
        n->left = &o->message;
    }
}

static void push(struct message **first, struct message **last, struct network_order *o) {
    o->message.next = NULL;
    if (*last)
        (*last)->next = &o->message;
    else
        *first = &o->message;
    *last = &o->message;
}

static struct network_order *pop(struct message **first, struct message **last) {
    struct message *m = *first;
    if (!m)
        return NULL;
    *first = m->next;
    if (!*first)
        *last = NULL;
    return order_of(m);
}

static bool caller_left(const struct network_order *o) { return o->gone && atomic_load(o->gone); }

static int cancelled(struct err *err) { return err_set(err, ERR_CANCELLED, "the call ended before the network took it"); }

/* ---- the table ------------------------------------------------------------------------------------------------- */

static int find(const struct networks *n, const char *name) {
    for (int i = 0; i < n->count; i++)
        if (!strcmp(n->items[i]->name, name))
            return i;
    return -1;
}

/* Networks of others are as if they were not there, but for their names. */
static bool may_use(const struct network_order *o, const struct network *net) {
    return o->all || !*net->owner || principal_is_same(net->owner, o->principal);
}

static int64_t used_bytes(const struct networks *n) {
    int64_t sum = 0;
    for (int i = 0; i < n->count; i++)
        sum += network_team_bytes(n->items[i]->team);
    return sum;
}

/* What is left for the caller's networks, of which this one (NULL: none) makes room. */
static int64_t free_bytes(const struct networks *n, const struct network_order *o, const struct network *gone) {
    int64_t own = 0;
    for (int i = 0; i < n->count; i++)
        own += n->items[i] != gone && principal_is_same(n->items[i]->owner, gone ? gone->owner : o->principal)
                   ? network_team_bytes(n->items[i]->team)
                   : 0;
    const int64_t of_all = n->config.most_bytes - used_bytes(n) + (gone ? network_team_bytes(gone->team) : 0),
                  of_caller = principal_share(n->config.most_bytes, n->config.shared) - own;
    return of_caller < of_all ? of_caller : of_all;
}

static void show(struct networks *n) {
    metric_set(n->number, n->count);
    metric_set(n->bytes, (double)used_bytes(n));
}

/* Adds one to the infos of the order, which have room. */
static int add_info(struct networks *n, struct network_order *o, int i, struct err *err) {
    int rc = network_describe(n->items[i], o, err);
    if (rc)
        return rc;
    struct network_info *info = &o->infos[o->n_infos - 1];
    int others = n->items[i]->n_others;
    str_copy(info->device, sizeof info->device, n->device);
    if (others)
        str_format(info->device, sizeof info->device, "%.15s and %d more", n->device, others);
    return 0;
}

static int describe(struct networks *n, struct network_order *o, int i, struct err *err) {
    o->infos = calloc(1, sizeof *o->infos);
    return o->infos ? add_info(n, o, i, err) : err_set(err, ERR_EXHAUSTED, "out of memory describing a network");
}

static int build_team(struct networks *n, const struct network *net, struct network_order *o, int64_t most_bytes,
                      struct network_team **ret, struct err *err) {
    const struct network_team_config config = {n->stream, &net->options, net->others, net->n_others};
    return network_build(&config, o, most_bytes, ret, err);
}

/* Names what keeps GPUs that share a network from reading one another's lists. */
static void log_way(const struct network *net) {
    const char *way = burst_way(network_team_burst(net->team));
    if (*way)
        log_write(str_starts(way, "host memory:") ? LOG_WARN : LOG_INFO, "devices share a network",
                  "network=\"%s\" devices=%d exchange=\"%s\"", net->name, net->n_others + 1, way);
}

static int create(struct networks *n, struct network_order *o, struct err *err) {
    if (!*o->name)
        do
            str_format(o->name, sizeof o->name, "net-%lld", (long long)++n->picked);
        while (find(n, o->name) >= 0);
    if (find(n, o->name) >= 0)
        return err_set(err, ERR_EXISTS, "there is a network '%s' already; destroy it or choose another name", o->name);
    if (n->count == n->config.most)
        return err_set(err, ERR_EXHAUSTED, "there are %d networks, the limit of limits.networks; destroy one", n->count);
    struct network *net = calloc(1, sizeof *net);
    if (!net)
        return err_set(err, ERR_EXHAUSTED, "out of memory for a network");
    net->options = (struct burst_options){.every_tick = o->every_tick, .max_pending = o->max_pending};
    net->budget_bytes = o->budget_bytes;
    net->metrics = &n->metrics;
    net->slice = 1;
    str_copy(net->name, sizeof net->name, o->name);
    str_copy(net->owner, sizeof net->owner, o->principal);
    net->n_others = o->n_others;
    memcpy(net->others, o->others, sizeof net->others);
    int rc = build_team(n, net, o, free_bytes(n, o, NULL), &net->team, err);
    if (rc || (rc = network_begin_ledger(net, err))) {
        network_done(net);
        free(net);
        return rc;
    }
    n->items[n->count++] = net;
    log_way(net);
    show(n);
    return describe(n, o, n->count - 1, err);
}

static int replace(struct networks *n, struct network_order *o, int i, struct err *err) {
    struct network *net = n->items[i];
    struct network_team *team = NULL;
    o->budget_bytes = net->budget_bytes;
    int rc = build_team(n, net, o, free_bytes(n, o, net), &team, err);
    if (rc || (rc = network_begin_ledger(net, err))) {
        network_team_free(team);
        return rc;
    }
    network_team_free(net->team);
    net->team = team;
    show(n);
    return describe(n, o, i, err);
}

static int list(struct networks *n, struct network_order *o, struct err *err) {
    struct network_info *infos = realloc(o->infos, (size_t)(o->n_infos + n->count + 1) * sizeof *infos);
    int rc;
    if (!infos)
        return err_set(err, ERR_EXHAUSTED, "out of memory describing %d networks", o->n_infos + n->count);
    o->infos = infos;
    for (int i = 0; i < n->count; i++)
        if (may_use(o, n->items[i]) && (rc = add_info(n, o, i, err)))
            return rc;
    return 0;
}

static void destroy(struct networks *n, int i) {
    struct network *net = n->items[i];
    if (net->patch)
        push(&net->first_held, &net->last_held, net->patch);
    for (struct network_order *o; (o = pop(&net->first_step, &net->last_step)) || (o = pop(&net->first_held, &net->last_held));) {
        err_set(&o->err, ERR_CANCELLED, "network '%s' was destroyed", net->name);
        answer(n, o);
    }
    network_done(net);
    free(net);
    memmove(n->items + i, n->items + i + 1, (size_t)(n->count - i - 1) * sizeof(struct network *));
    n->count--;
    show(n);
}

static int lend(struct network *net, struct network_order *o, struct err *err) {
    int rc = network_team_save(net->team, &o->state, err);
    if (rc)
        return rc;
    o->lent = network_team_connectome(net->team);
    net->lent = true;
    return 0;
}

static int queue_step(struct network *net, struct network_order *o, struct err *err) {
    if (net->n_steps == NETWORK_MOST_STEPS)
        return err_set(err, ERR_EXHAUSTED, "%d Steps wait for network '%s', which is the limit", net->n_steps, net->name);
    int rc = network_may_collect(net, o, err);
    if (rc)
        return rc;
    push(&net->first_step, &net->last_step, o);
    net->n_steps++;
    return 0;
}

/* An order for network i. True when it is not over yet. */
static bool act(struct networks *n, struct network_order *o, int i) {
    struct network *net = n->items[i];
    switch ((enum network_order_kind)o->message.kind) {
    case NETWORK_REPLACE:
        replace(n, o, i, &o->err);
        break;
    case NETWORK_INJECT:
        network_inject(net, o, &o->err);
        break;
    case NETWORK_PATCH:
        if (!network_patch(net, o)) {
            net->patch = o;
            return true;
        }
        break;
    case NETWORK_OBSERVE:
        network_observe(net, o, &o->err);
        break;
    case NETWORK_LEND:
        lend(net, o, &o->err);
        break;
    case NETWORK_STEP:
        if (!queue_step(net, o, &o->err))
            return true;
        break;
    default:
        return false;
    }
    if (!o->n_infos && !o->err.code)
        describe(n, o, i, &o->err);
    return false;
}

/* Carries out the orders that waited for the end of a loan or a patch. */
static void send_held(struct networks *n, struct network *net) {
    struct message *held = net->first_held;
    net->first_held = net->last_held = NULL;
    while (held) { /* in order; another loan or patch among them holds the rest again */
        struct network_order *o = order_of(held);
        held = held->next;
        networks_order(n, o);
    }
}

void networks_order(struct networks *n, struct network_order *o) {
    enum network_order_kind kind = (enum network_order_kind)o->message.kind;
    int i = kind == NETWORK_CREATE || kind == NETWORK_LIST ? -1 : find(n, o->name);
    if (kind == NETWORK_RETURN) {
        if (i >= 0) {
            n->items[i]->lent = false;
            send_held(n, n->items[i]);
        }
        network_order_free(o);
        return;
    }
    if (caller_left(o)) {
        cancelled(&o->err);
    } else if (kind == NETWORK_CREATE) {
        create(n, o, &o->err);
    } else if (kind == NETWORK_LIST) {
        list(n, o, &o->err);
    } else if (i < 0 || !may_use(o, n->items[i])) {
        err_set(&o->err, ERR_NOT_FOUND, "there is no network '%s'; `brrctl burst list` shows them", o->name);
    } else if (n->items[i]->lent || n->items[i]->patch) {
        push(&n->items[i]->first_held, &n->items[i]->last_held, o);
        return;
    } else if (kind == NETWORK_DESTROY) {
        destroy(n, i);
    } else if (act(n, o, i)) {
        return;
    }
    answer(n, o);
}

/* ---- turns ----------------------------------------------------------------------------------------------------- */

static bool is_due(const struct network *net) { return net->patch || (net->first_step && !net->lent); }

/* To the end of the line. */
static void requeue(struct networks *n, int i) {
    struct network *net = n->items[i];
    memmove(n->items + i, n->items + i + 1, (size_t)(n->count - i - 1) * sizeof(struct network *));
    n->items[n->count - 1] = net;
}

/* A slice of the network's patch. */
static void run_patch(struct networks *n, struct network *net, int i) {
    struct network_order *o = net->patch;
    if (!network_patch(net, o))
        return;
    net->patch = NULL;
    if (!o->err.code)
        describe(n, o, i, &o->err);
    answer(n, o);
    send_held(n, net);
}

/* A slice of the network's first Step. */
static void run_step(struct networks *n, struct network *net, int i) {
    struct network_order *o = order_of(net->first_step);
    bool over = caller_left(o);
    if (over)
        cancelled(&o->err);
    else
        over = network_slice(net, o);
    if (over) {
        (void)pop(&net->first_step, &net->last_step);
        net->n_steps--;
        if (!o->err.code)
            describe(n, o, i, &o->err);
        answer(n, o);
    }
}

bool networks_step(struct networks *n) {
    int i = 0;
    while (i < n->count && !is_due(n->items[i]))
        i++;
    if (i == n->count)
        return false;
    requeue(n, i);
    struct network *net = n->items[n->count - 1];
    if (net->patch)
        run_patch(n, net, n->count - 1);
    else
        run_step(n, net, n->count - 1);
    return true;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

struct networks *networks_new(const struct networks_config *config) {
    struct networks *n = calloc(1, sizeof *n);
    if (!n)
        return NULL;
    n->config = *config;
    n->items = calloc((size_t)config->most + 1, sizeof(struct network *));
    if (!n->items || stream_open(config->device, STREAM_NORMAL, &n->stream, NULL)) {
        free(n->items);
        free(n);
        return NULL;
    }
    struct device_info info;
    device_describe(config->device, &info);
    str_copy(n->device, sizeof n->device, info.name);
    if (config->metrics) {
        n->metrics =
            (struct network_metrics){.ticks = metrics_series(config->metrics, "brrd_burst_ticks_total", n->device),
                                     .tick_seconds = metrics_series(config->metrics, "brrd_burst_tick_seconds", n->device),
                                     .spikes = metrics_series(config->metrics, "brrd_burst_network_spikes_total", n->device),
                                     .overruns = metrics_series(config->metrics, "brrd_burst_overruns_total", n->device)};
        n->number = metrics_series(config->metrics, "brrd_burst_networks", n->device);
        n->bytes = metrics_series(config->metrics, "brrd_burst_network_bytes", n->device);
    }
    return n;
}

void networks_free(struct networks *n, struct message **ret_left) {
    if (!n)
        return;
    while (n->count)
        destroy(n, n->count - 1);
    *ret_left = n->left;
    stream_close(n->stream);
    free(n->items);
    free(n);
}
