#include "daemon/burst/network_team.h"

#include "daemon/hosts/niceness.h"

struct team_rank {
    struct network_team *team;
    struct world world;
    struct device *device; /* NULL: rank 0, whose stream is the caller's */
    struct stream *stream;
    struct burst *burst;
    pthread_t thread;
    bool started;
    int rc;
    struct err err;
};

/* Work that all ranks do at once; a failure is final if they may have exchanged a part of it. */
typedef int team_work(struct team_rank *rank, void *arg, struct err *err);

struct network_team {
    struct burst_options options;
    struct connectome *whole; /* of several devices; NULL: that of the engine */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* work has begun or ended */
    team_work *work;        /* NULL: the threads end */
    void *arg;
    int64_t round; /* of work */
    int busy;      /* ranks that are at it */
    bool broken;
    int n;
    struct team_rank ranks[];
};

/* ---- together --------------------------------------------------------------------------------------------------- */

/* A rank that fails leaves the world, so that the others do not wait for it. */
static void rank_carry_out(struct team_rank *r, team_work *work, void *arg) {
    r->err = (struct err){0};
    r->rc = work(r, arg, &r->err);
    if (r->rc && r->team->n > 1)
        world_close(&r->world, false);
}

static void *rank_main(void *arg) {
    struct team_rank *r = arg;
    struct network_team *t = r->team;
    niceness_set(NICENESS_NETWORKS);
    pthread_mutex_lock(&t->lock);
    for (int64_t seen = 0;; seen = t->round) {
        while (t->round == seen)
            pthread_cond_wait(&t->changed, &t->lock);
        team_work *work = t->work;
        if (!work)
            break;
        pthread_mutex_unlock(&t->lock);
        rank_carry_out(r, work, t->arg);
        pthread_mutex_lock(&t->lock);
        if (--t->busy == 0)
            pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

static void begin_round(struct network_team *t, team_work *work, void *arg) {
    pthread_mutex_lock(&t->lock);
    t->work = work;
    t->arg = arg;
    t->busy = t->n - 1;
    t->round++;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}

/* The error of the rank that failed first: the others say that a rank has ended. */
static int first_error(const struct network_team *t, struct err *err) {
    const struct team_rank *found = NULL;
    for (int i = 0; i < t->n; i++)
        if (t->ranks[i].rc && (!found || found->rc == ERR_UNAVAILABLE))
            found = &t->ranks[i];
    if (found && err)
        *err = found->err;
    return found ? found->rc : 0;
}

static int together(struct network_team *t, team_work *work, void *arg, struct err *err) {
    if (t->broken)
        return err_set(err, ERR_PRECONDITION, "the devices of this network no longer agree after an error; destroy it");
    begin_round(t, work, arg);
    rank_carry_out(&t->ranks[0], work, arg);
    pthread_mutex_lock(&t->lock);
    while (t->busy)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
    int rc = first_error(t, err);
    t->broken = rc && t->n > 1;
    return rc;
}

/* ---- making ----------------------------------------------------------------------------------------------------- */

/* The rank's part of a network whose arrays these are. */
static int rank_make(struct team_rank *r, void *arg, struct err *err) {
    struct connectome_arrays a = *(const struct connectome_arrays *)arg;
    struct burst_options options = r->team->options;
    struct connectome *part = NULL;
    int rc;
    options.world = &r->world;
    a.shard = (struct connectome_shard){r->world.rank, r->world.size};
    if ((r->device && (rc = stream_open(r->device, STREAM_NORMAL, &r->stream, err))) || (rc = connectome_new(&a, 0, &part, err)))
        return rc;
    return burst_new(r->stream, part, &options, &r->burst, err);
}

static int start_threads(struct network_team *t, struct err *err) {
    struct world worlds[NETWORK_MOST_DEVICES];
    int rc = world_threads(worlds, t->n, err);
    for (int i = 0; !rc && i < t->n; i++)
        t->ranks[i].world = worlds[i];
    for (int i = 1; !rc && i < t->n; i++) {
        rc = pthread_create(&t->ranks[i].thread, NULL, rank_main, &t->ranks[i]);
        t->ranks[i].started = !rc;
        if (rc)
            rc = err_set(err, ERR_EXHAUSTED, "out of memory for the threads of a network");
    }
    return rc;
}

static int make_shared(struct network_team *t, struct err *err) {
    struct connectome_arrays arrays;
    void *memory = NULL;
    int rc;
    if ((rc = start_threads(t, err)) || (rc = connectome_export(t->whole, &arrays, &memory, err)))
        return rc;
    rc = together(t, rank_make, &arrays, err);
    free(memory);
    return rc;
}

int network_team_new(const struct network_team_config *c, struct connectome *net, struct network_team **ret, struct err *err) {
    int n = 1 + c->n_others;
    struct network_team *t = calloc(1, sizeof *t + (size_t)n * sizeof t->ranks[0]);
    if (!t) {
        connectome_free(net);
        return err_set(err, ERR_EXHAUSTED, "out of memory for a network");
    }
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    t->options = *c->options;
    t->n = n;
    for (int i = 0; i < n; i++) {
        t->ranks[i] = (struct team_rank){.team = t, .device = i ? c->others[i - 1] : NULL};
        world_alone(&t->ranks[i].world);
    }
    t->ranks[0].stream = c->lead;
    t->whole = n > 1 ? net : NULL;
    int rc = n > 1 ? make_shared(t, err) : burst_new(c->lead, net, &t->options, &t->ranks[0].burst, err);
    return GIVEN(ret, t, network_team_free, rc);
}

void network_team_free(struct network_team *t) {
    if (!t)
        return;
    begin_round(t, NULL, NULL);
    for (int i = 0; i < t->n; i++) {
        struct team_rank *r = &t->ranks[i];
        if (r->started)
            pthread_join(r->thread, NULL);
        burst_free(r->burst);
        if (r->device)
            stream_close(r->stream);
    }
    for (int i = 0; i < t->n; i++)
        world_close(&t->ranks[i].world, !t->broken);
    connectome_free(t->whole);
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

/* ---- what it is ------------------------------------------------------------------------------------------------- */

int network_team_devices(const struct network_team *t) { return t->n; }
struct burst *network_team_burst(const struct network_team *t) {
    return t->ranks[0].burst;
}

const struct connectome *network_team_connectome(const struct network_team *t) {
    return t->whole ? t->whole : burst_connectome(t->ranks[0].burst);
}

int64_t network_team_bytes(const struct network_team *t) {
    int64_t sum = t->whole ? t->whole->bytes : 0;
    for (int i = 0; i < t->n; i++)
        sum += burst_bytes(t->ranks[i].burst);
    return sum;
}

/* ---- what it does ----------------------------------------------------------------------------------------------- */

struct injections {
    const struct burst_injection *list;
    int64_t n;
};

static int others_inject(struct team_rank *r, void *arg, struct err *err) {
    const struct injections *in = arg;
    return r->world.rank ? burst_inject(r->burst, in->list, in->n, err) : 0;
}

/* The others get none that rank 0 refuses. */
int network_team_inject(struct network_team *t, const struct burst_injection *list, int64_t n, struct err *err) {
    int rc = burst_inject(t->ranks[0].burst, list, n, err);
    return rc || t->n == 1 ? rc : together(t, others_inject, &(struct injections){list, n}, err);
}

static int others_set_neuron(struct team_rank *r, void *arg, struct err *err) {
    const struct team_neuron *c = arg;
    return r->world.rank ? burst_set_neuron(r->burst, c->id, c->field, c->value, err) : 0;
}

int network_team_set_neuron(struct network_team *t, const struct team_neuron *c, struct err *err) {
    int rc = burst_set_neuron(t->ranks[0].burst, c->id, c->field, c->value, err);
    return rc || t->n == 1 ? rc : together(t, others_set_neuron, (void *)(uintptr_t)c, err);
}

static int others_delete_neuron(struct team_rank *r, void *arg, struct err *err) {
    return r->world.rank ? burst_delete_neuron(r->burst, *(const uint32_t *)arg, err) : 0;
}

int network_team_delete_neuron(struct network_team *t, uint32_t id, struct err *err) {
    int rc = burst_delete_neuron(t->ranks[0].burst, id, err);
    return rc || t->n == 1 ? rc : together(t, others_delete_neuron, &id, err);
}

static int rank_step(struct team_rank *r, void *arg, struct err *err) {
    const struct team_ticks *s = arg;
    if (r->team->n == 1)
        return burst_step_within(r->burst, s->ticks, s->seconds, s->sink, s->ctx, err);
    return burst_step(r->burst, s->ticks, r->world.rank ? NULL : s->sink, s->ctx, err);
}

int network_team_step(struct network_team *t, const struct team_ticks *step, struct err *err) {
    return together(t, rank_step, (void *)(uintptr_t)step, err);
}

static int rank_save(struct team_rank *r, void *arg, struct err *err) {
    struct burst_state unused = {0};
    int rc = burst_save(r->burst, r->world.rank ? &unused : arg, err);
    burst_state_done(&unused);
    return rc;
}

/* Parameters of neurons, which changes may have set, as rank 0 has them: all ranks have those of all neurons. */
static void update_whole(struct network_team *t) {
    const struct spike_net *from = &burst_connectome(t->ranks[0].burst)->net;
    struct spike_net *to = &t->whole->net;
#define UPDATE(name) memcpy(to->name, from->name, from->n * sizeof *from->name);
    UPDATE(threshold)
    UPDATE(threshold_limit)
    UPDATE(leak)
    UPDATE(excitability)
    UPDATE(refractory)
    UPDATE(fire_limit)
    UPDATE(snooze)
    UPDATE(flags)
#undef UPDATE
}

int network_team_save(struct network_team *t, struct burst_state *ret, struct err *err) {
    int rc = together(t, rank_save, ret, err);
    if (rc || !t->whole)
        return rc;
    update_whole(t);
    return 0;
}

static int rank_restore(struct team_rank *r, void *arg, struct err *err) { return burst_restore(r->burst, arg, err); }

int network_team_restore(struct network_team *t, const struct burst_state *state, struct err *err) {
    return together(t, rank_restore, (void *)(uintptr_t)state, err);
}
