/* burst create, list, inject, observe, snapshot, restore, destroy: networks in the daemon. */

#include "burst/spikefile.h"
#include "client/brrctl/brrctl.h"
#include "client/brrctl/burst/burst.h"
#include "client/brrctl/burst/spikes.h"
#include "client/brrctl/interrupt.h"
#include "client/brrctl/listing.h"
#include "client/brrctl/output.h"

/* ---- networks -------------------------------------------------------------------------------------------------- */

static void put_network(struct json_writer *w, const struct brr_network *n) {
    JSON_MEMBERS(w, *n, name, device, neurons, synapses, areas, tick, pending, fired_total, observers, bytes, budget_bytes);
}

static void print_networks(const struct brr_network *list, size_t n, bool json) {
    struct listing listing;
    listing_begin(&listing, "network|>neurons|>synapses|>tick|>waiting|>memory|device");
    for (size_t i = 0; i < n; i++) {
        char bytes[32];
        if (json) {
            struct json_writer *w = output_begin();
            put_network(w, &list[i]);
            output_end(w);
            continue;
        }
        listing_row(&listing, "%s|%" PRId64 "|%" PRId64 "|%" PRId64 "|%" PRId64 "|%s|%s", list[i].name, list[i].neurons,
                    list[i].synapses, list[i].tick, list[i].pending, output_bytes((double)list[i].bytes, bytes, sizeof bytes),
                    list[i].device);
    }
    listing_end(&listing);
}

bool burst_open(const struct arguments *o, brr_client *client, const char *path, const char *name, struct brr_network *ret,
                int *ret_exit) {
    struct brr_network_options options = {
        .name = name, .every_tick = burst_options_of(o)->every_tick, .device = burst_options_of(o)->device};
    struct brr_error err;
    if (burst_options_of(o)->budget &&
        (!str_to_bytes(burst_options_of(o)->budget, &options.budget_bytes) || options.budget_bytes < 1)) {
        fprintf(stderr, "brrctl: --budget is '%s'; expected bytes, such as 512MiB or 4GB\n", burst_options_of(o)->budget);
        *ret_exit = EXIT_USAGE;
        return false;
    }
    if (!o->json && output_redraws(stderr))
        output_progress(stderr, "sending the network; the daemon checks and builds it");
    int rc = brr_network_create(client, path, &options, ret, &err);
    output_clear();
    if (rc)
        *ret_exit = brrctl_fail_call(&err);
    return rc == 0;
}

int burst_create(const struct arguments *o) {
    struct brr_network n;
    int code = 0;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (client && burst_open(o, client, o->args[1], burst_options_of(o)->name, &n, &code))
        print_networks(&n, 1, o->json);
    return code;
}

int burst_list(const struct arguments *o) {
    struct brr_network *list = NULL;
    struct brr_error err;
    size_t n = 0;
    int code = 0;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    if (brr_network_list(client, &list, &n, &err))
        code = brrctl_fail_call(&err);
    else
        print_networks(list, n, o->json);
    if (!code && !n && !o->json)
        puts("no networks");
    brr_free(list);
    return code;
}

int burst_find(brr_client *client, const char *name, struct brr_network *ret, struct brr_error *err) {
    struct brr_network *list = NULL;
    size_t n = 0, i = 0;
    char text[160];
    int rc = brr_network_list(client, &list, &n, err);
    if (rc)
        return rc;
    while (i < n && strcmp(list[i].name, name) != 0)
        i++;
    bool found = i < n;
    if (found)
        *ret = list[i];
    brr_free(list);
    if (found)
        return 0;
    str_format(text, sizeof text, "there is no network '%.64s'; `brrctl burst list` shows them", name);
    return brrctl_set_error(err, BRR_NOT_FOUND, text);
}

int burst_destroy(const struct arguments *o) {
    struct brr_error err;
    int code = 0;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    if (brr_network_destroy(client, o->args[1], &err))
        code = brrctl_fail_call(&err);
    else if (o->json)
        output_text("destroyed", o->args[1]);
    else
        printf("%s destroyed\n", o->args[1]);
    return code;
}

/* ---- injections ------------------------------------------------------------------------------------------------ */

int burst_send_injections(brr_client *client, const struct brr_network *network, const struct burst_table *table,
                          int64_t *ret_pending, struct brr_error *err) {
    struct err bad = {0};
    if (spikefile_check_injections(table->path, table->list, table->n, network->neurons, &bad))
        return brrctl_keep_error(err, &bad);
    int64_t most = table->n < BRR_NETWORK_MOST_INJECTIONS ? table->n : BRR_NETWORK_MOST_INJECTIONS;
    OWNED_MEMORY struct brr_injection *part = calloc((size_t)most + 1, sizeof *part);
    if (!part)
        return brrctl_set_error(err, BRR_EXHAUSTED, "out of memory for injections");
    for (int64_t at = 0; at < table->n; at += most) {
        int64_t n = table->n - at < most ? table->n - at : most;
        for (int64_t i = 0; i < n; i++)
            part[i] =
                (struct brr_injection){(int64_t)table->list[at + i].tick, table->list[at + i].id, table->list[at + i].potential};
        int rc = brr_network_inject(client, network->name, part, (size_t)n, ret_pending, err);
        if (rc) {
            char message[sizeof err->message];
            str_format(message, sizeof message, "%s, rows from %" PRId64 " on: %s", table->path, at + 1, err->message);
            str_copy(err->message, sizeof err->message, message);
            return rc;
        }
    }
    return 0;
}

int burst_inject(const struct arguments *o) {
    struct burst_table table = {.path = o->args[2]};
    struct brr_network network;
    struct brr_error err;
    struct err bad = {0};
    int64_t pending = 0;
    int code = 0;
    if (spikefile_read_injections(table.path, &table.list, &table.n, &bad))
        return brrctl_fail(&bad);
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (client &&
        (burst_find(client, o->args[1], &network, &err) || burst_send_injections(client, &network, &table, &pending, &err)))
        code = brrctl_fail_call(&err);
    if (client && !code && o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "network", o->args[1]);
        json_put_i64(w, "injected", table.n);
        json_put_i64(w, "pending", pending);
        output_end(w);
    } else if (client && !code) {
        printf("%" PRId64 " injection%s sent to %s; %" PRId64 " waiting\n", table.n, table.n == 1 ? "" : "s", o->args[1], pending);
    }
    free(table.list);
    return code;
}

/* ---- observing ------------------------------------------------------------------------------------------------- */

static void print_frame(const struct brr_frame *f, int64_t missed, bool json) {
    enum { SHOWN = 16 };
    if (json) {
        struct json_writer *w = output_begin();
        json_put_i64(w, "tick", f->tick);
        json_put_i64(w, "fired", (int64_t)f->n_ids);
        json_put_i64(w, "candidates", f->candidates);
        JSON_ARRAY(w, "ids", f->ids, f->n_ids);
        json_put_i64(w, "missed", missed);
        output_end(w);
        return;
    }
    printf("tick %" PRId64 ": %zu of %" PRId64 " candidates fired", f->tick, f->n_ids, f->candidates);
    for (size_t i = 0; i < f->n_ids && i < SHOWN; i++)
        printf("%s%" PRIu32, i ? " " : ": ", f->ids[i]);
    puts(f->n_ids > SHOWN ? " …" : "");
    fflush(stdout);
}

struct observation {
    const struct arguments *o;
    brr_observer *observer;
    struct spikes spikes;
    int64_t frames, wanted; /* wanted < 0: all */
    bool past;              /* those wanted have run already: what was missed does not come any more */
};

/* The rest of the ticks that have run was missed. */
static bool lacks_the_rest(const struct observation *v) {
    return v->past && v->frames + brr_observer_missed(v->observer) >= v->wanted;
}

/* Frames until there are enough, the network is destroyed, or Ctrl-C. Returns an exit code. */
static int follow(struct observation *v) {
    enum { PAUSE_MS = 200 };
    struct brr_error err;
    struct err bad = {0};
    struct brr_frame frame;
    int rc = 0;
    while (!interrupt_seen() && (v->wanted < 0 || v->frames < v->wanted)) {
        rc = brr_observer_next(v->observer, PAUSE_MS, &frame, &err);
        if (rc == BRR_AGAIN && lacks_the_rest(v))
            return 0;
        if (rc == BRR_AGAIN)
            continue;
        if (rc)
            break;
        v->frames++;
        if (spikes_add(&v->spikes, frame.tick, frame.ids, frame.n_ids, &bad))
            return brrctl_fail(&bad);
        print_frame(&frame, brr_observer_missed(v->observer), v->o->json);
    }
    return rc < 0 ? brrctl_fail_call(&err) : 0;
}

/* With a ledger: the newest ticks that it has. Without: those to come. */
static int read_frames(const struct arguments *o, bool ledger) {
    const struct burst_options *own = burst_options_of(o);
    struct observation v = {.o = o, .wanted = own->ticks, .past = ledger};
    int64_t last = !ledger ? 0 : own->ticks < 0 ? INT64_MAX : own->ticks;
    struct brr_error err;
    struct err bad = {0};
    int code = 0;
    if (burst_options_of(o)->fired && !spikes_is_name(burst_options_of(o)->fired)) {
        fprintf(stderr, "brrctl: --fired is '%s'; expected a name that ends in .npy or .tsv\n", burst_options_of(o)->fired);
        return EXIT_USAGE;
    }
    interrupt_catch();
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    if (brr_network_observe_from(client, o->args[1], last, own->frames > 0 ? (int)own->frames : 0, &v.observer, &err))
        code = brrctl_fail_call(&err);
    else if (spikes_open(&v.spikes, burst_options_of(o)->fired, &bad))
        code = brrctl_fail(&bad);
    else {
        v.wanted = ledger ? brr_observer_past(v.observer) : v.wanted;
        code = follow(&v);
    }
    if (!code && spikes_close(&v.spikes, &bad))
        code = brrctl_fail(&bad);
    int64_t missed = v.observer ? brr_observer_missed(v.observer) : 0;
    if (missed)
        fprintf(stderr,
                "brrctl: %" PRId64
                " frames were missed: this observer read too slowly (raise --queue), or the others took all memory of observers\n",
                missed);
    spikes_abort(&v.spikes);
    brr_observer_close(v.observer);
    return missed && burst_options_of(o)->fired && !code ? EXIT_FAILED : code;
}

int burst_observe(const struct arguments *o) { return read_frames(o, false); }
int burst_ledger(const struct arguments *o) { return read_frames(o, true); }

/* ---- snapshots ------------------------------------------------------------------------------------------------- */

int burst_snapshot(const struct arguments *o) {
    struct brr_error err;
    int64_t bytes = 0;
    int code = 0;
    char size[32];
    if (!burst_options_of(o)->output) {
        fputs("brrctl: burst snapshot needs --out FILE.safetensors\n", stderr);
        return EXIT_USAGE;
    }
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    if (brr_network_snapshot(client, o->args[1], burst_options_of(o)->output, 0, &bytes, &err)) {
        code = brrctl_fail_call(&err);
    } else if (o->json) {
        struct json_writer *w = output_begin();
        json_put_str(w, "network", o->args[1]);
        json_put_str(w, "file", burst_options_of(o)->output);
        json_put_i64(w, "bytes", bytes);
        output_end(w);
    } else {
        printf("%s: snapshot of %s, %s\n", burst_options_of(o)->output, o->args[1], output_bytes((double)bytes, size, sizeof size));
    }
    return code;
}

int burst_restore(const struct arguments *o) {
    struct brr_network n;
    struct brr_error err;
    int code = 0;
    OWNED_POINTER(brr_disconnect) brr_client *client = brrctl_connect(o, &code);
    if (!client)
        return code;
    if (brr_network_restore(client, o->args[1], o->args[2], 0, &n, &err))
        code = brrctl_fail_call(&err);
    else
        print_networks(&n, 1, o->json);
    return code;
}
