#include "daemon/live/live.h"

#include "base/base.h"
#include "detect/timeline.h"
#include "seed.h"
#include "unit/live_fixture.h"

/* While memory is short no report can be made: calloc fails for its size (the linker's --wrap). */
static bool memory_short;
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size) {
    return memory_short && n == 1 && size == sizeof(struct live_report) ? NULL : __real_calloc(n, size);
}

/* Nor can a block of this size (0: any can). */
static size_t scarce;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) { return scarce && size == scarce ? NULL : __real_malloc(size); }

/* ---- what a stream gives ---- */

static void chunks_of_any_size_and_overlaps_give_the_same_trace(void **state) {
    struct bench *b = *state;
    struct heard one, other, *o = &other;
    whole(b, &one);
    open_stream(b, &other, NULL);
    int64_t at = 0;
    for (int64_t n = 1; at < SAMPLES; n = n * 3 + 1) {
        int64_t end = at + n < SAMPLES ? at + n : SAMPLES, back = at < 7 ? at : 7;
        live_order(b->live, chunk(b, other.stream, at - back, end, back));
        run(b);
        at = end;
    }
    order(b, LIVE_FINISH, other.stream);
    run(b);
    listen(b, &o, 1);
    assert_int_equal(other.opened, 1);
    assert_int_equal(other.consumed, SAMPLES);
    assert_int_equal(other.at, SAMPLES);
    assert_int_equal(other.windows, one.windows);
    assert_memory_equal(one.p, other.p, SAMPLES * sizeof(float));
    close_stream(b, &one);
    close_stream(b, &other);
}

static void only_a_stream_in_real_time_keeps_eeg_for_people(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    for (int realtime = 0; realtime < 2; realtime++) {
        open_stream(b, &h, &(struct live_open){.realtime = realtime, .alarm_hop_s = -1});
        listen(b, &one, 1);
        assert_int_equal(h.opened, 1);
        assert_int_equal(h.has_eeg, realtime);
        close_stream(b, &h);
    }
}

/* Replays whose samples are taken in by several threads; one fails and one is closed in the middle. */
static void replays_side_by_side_are_the_same_on_any_number_of_lanes(void **state) {
    enum { STREAMS = 5, FAILS = 3, CLOSES = 4, PIECE = 700 };
    struct bench *b = *state;
    struct heard *one = calloc(1, sizeof *one), *many = calloc(STREAMS, sizeof *many), *who[STREAMS];
    b->batch = 8;
    whole(b, one);
    close_stream(b, one);
    for (int lanes = 1; lanes <= 4; lanes *= 2) {
        close_live(b);
        b->lanes = lanes;
        b->live = live_of(b, 0);
        for (int i = 0; i < STREAMS; i++) {
            open_stream(b, &many[i], NULL);
            who[i] = &many[i];
        }
        for (int64_t at = 0; at < SAMPLES; at += PIECE) {
            const int64_t end = at + PIECE < SAMPLES ? at + PIECE : SAMPLES;
            for (int i = 0; i < STREAMS; i++)
                if (i != CLOSES || at < SAMPLES / 2)
                    live_order(b->live, chunk(b, many[i].stream, at, end, 0));
            if (at / PIECE % 3 == 2) /* several chunks of each wait */
                run(b);
            if (at < SAMPLES / 2 && end >= SAMPLES / 2) {
                const struct err err = {.code = ERR_INVALID};
                order(b, LIVE_CLOSE, many[CLOSES].stream); /* with samples that wait */
                live_stream_fail(many[FAILS].stream, &err);
            }
        }
        for (int i = 0; i < STREAMS - 1; i++)
            order(b, LIVE_FINISH, many[i].stream);
        run(b);
        listen(b, who, STREAMS);
        for (int i = 0; i < STREAMS; i++) {
            const bool ends = i != FAILS && i != CLOSES;
            assert_int_equal(many[i].summaries, ends);
            assert_int_equal(many[i].failures, i == FAILS);
            assert_int_equal(many[i].closed, i == CLOSES);
            if (ends) {
                assert_int_equal(many[i].consumed, SAMPLES);
                assert_int_equal(many[i].windows, one->windows);
                assert_int_equal(many[i].results, one->results);
            }
            assert_memory_equal(many[i].p, one->p, (size_t)(ends ? SAMPLES : many[i].at) * sizeof(float));
            if (i == CLOSES)
                live_stream_free(many[i].stream);
            else
                close_stream(b, &many[i]);
        }
    }
    free(one);
    free(many);
}

/* Else a step would take as long as the samples of all replays take, and nothing else of its host goes on meanwhile. */
static void a_step_takes_in_samples_of_as_many_replays_as_there_are_lanes(void **state) {
    enum { REPLAYS = 12, LANES = LIVE_BATCH_CPU + 2 };
    struct bench *b = *state;
    struct heard *all = calloc(REPLAYS, sizeof *all), *who[REPLAYS];
    int began = 0;
    close_live(b);
    b->lanes = LANES;
    b->live = live_of(b, 0);
    for (int i = 0; i < REPLAYS; i++) {
        who[i] = &all[i];
        open_stream(b, who[i], NULL);
        live_order(b->live, chunk(b, who[i]->stream, 0, SAMPLES, 0));
    }
    assert_int_equal(live_step(b->live), LIVE_RAN_REPLAY);
    listen(b, who, REPLAYS);
    for (int i = 0; i < REPLAYS; i++)
        began += all[i].consumed > 0;
    assert_int_equal(began, LANES);
    run(b);
    listen(b, who, REPLAYS);
    for (int i = 0; i < REPLAYS; i++) {
        assert_int_equal(all[i].consumed, SAMPLES);
        assert_int_equal(all[i].results, all[0].results);
        close_stream(b, who[i]);
    }
    free(all);
}

/* ---- results are a function of the samples ---- */

/* Results and alarms of a stream as bytes, in order; counts the events and alarms. */
static int collect(struct bench *b, struct str *out) {
    int found = 0, alarms = 0, seconds_of_suppression = 0;
    for (struct live_report *r; (r = next(b)); live_report_free(r)) {
        if (r->message.kind != LIVE_RESULT && r->message.kind != LIVE_ALARM)
            continue;
        pack_i64(out, r->message.kind);
        pack_i64(out, r->seq);
        pack_i64(out, r->first);
        pack_i64(out, r->samples);
        pack_i64(out, r->gap);
        pack_i64(out, r->on);
        pack_f64(out, (double)r->probability);
        pack_bytes(out, r->p, r->p ? (size_t)r->samples * sizeof *r->p : 0);
        found += r->n_events;
        alarms += r->message.kind == LIVE_ALARM;
        pack_f64(out, r->quality.gap_fraction);
        for (int i = 0; i < r->quality.n; i++) {
            pack_i64(out, r->quality.channels[i].channel);
            pack_i64(out, r->quality.channels[i].flaws);
        }
        for (int i = 0; i < r->n_suppression; i++) {
            pack_i64(out, r->suppression[i].sample);
            pack_i64(out, r->suppression[i].observed);
            pack_f64(out, (double)r->suppression[i].ratio);
            pack_f64(out, (double)r->suppression[i].bursts_per_minute);
        }
        pack_bytes(out, r->channel_suppression, (size_t)r->n_suppression * 2 * (size_t)r->channels * sizeof(float));
        seconds_of_suppression += r->n_suppression;
        for (int i = 0; i < r->n_events; i++) {
            pack_i64(out, r->events[i].first);
            pack_i64(out, r->events[i].end);
            pack_f64(out, (double)r->events[i].confidence);
        }
    }
    assert_true(seconds_of_suppression > SAMPLES / RATE / 2);
    return found < alarms ? found : alarms;
}

/* The signal in chunks of at most `most` samples, with a long gap at a third, a short one at half and a hop-sized segment before
 * the end; steps are run in between at random. */
static void stream_in_pieces(struct bench *b, uint64_t *rng, int64_t most, struct str *out) {
    static const struct {
        int64_t at, missing;
    } gaps[] = {
        {SAMPLES / 3, 5 * RATE}, {SAMPLES / 2, RATE}, {SAMPLES - 3 * HOP, 3 * RATE}, {SAMPLES - HOP, 3 * RATE}, {SAMPLES, 0}};
    struct heard h;
    open_stream(b, &h, &(struct live_open){.alarm_hop_s = 0.25});
    int64_t at = 0;
    for (size_t k = 0; k < sizeof gaps / sizeof *gaps; k++) {
        while (at < gaps[k].at) {
            *rng = *rng * 6364136223846793005u + 1442695040888963407u;
            int64_t n = 1 + (int64_t)(*rng >> 33) % most, end = at + n < gaps[k].at ? at + n : gaps[k].at;
            live_order(b->live, chunk(b, h.stream, at, end, 0));
            if (*rng >> 32 & 1)
                run(b);
            at = end;
        }
        gap(b, h.stream, gaps[k].missing);
    }
    order(b, LIVE_FINISH, h.stream);
    run(b);
    assert_true(collect(b, out) > 1); /* else little is compared */
    order(b, LIVE_CLOSE, h.stream);
    live_report_free(next(b));
    live_stream_free(h.stream);
}

static void results_and_their_numbers_depend_on_no_chunking(void **state) {
    struct bench *b = *state;
    struct str wanted, got;
    uint64_t rng = test_seed();
    for (int64_t i = 4 * RATE; i < 9 * RATE; i++)
        b->x[i] = 7; /* flat */
    for (int64_t i = 3000; i < 3100; i++)
        b->x[SAMPLES + i] = NAN; /* across two seconds */
    str_init(&wanted, 16 << 20);
    str_init(&got, 16 << 20);
    stream_in_pieces(b, &rng, SAMPLES, &wanted);
    assert_true(wanted.len > SAMPLES * sizeof(float));
    for (int64_t most = 3; most < SAMPLES; most *= 5) {
        str_clear(&got);
        stream_in_pieces(b, &rng, most, &got);
        assert_int_equal(got.len, wanted.len);
        assert_memory_equal(got.data, wanted.data, wanted.len);
    }
    str_done(&wanted);
    str_done(&got);
}

/* The mains, or what all electrodes have in common: the samples move, and nothing is left of them in the channels of the model, so
 * that there is no alarm. It is told as of a flat channel. */
static void what_is_flat_behind_the_filters_is_flat_though_its_samples_move(void **state) {
    struct bench *b = *state;
    struct heard h;
    int flat = 0, other = 0;
    for (int c = 0; c < 2; c++)
        for (int64_t i = 0; i < SAMPLES; i++)
            b->x[c * SAMPLES + i] = 20 * sinf((float)(2 * M_PI * 60 / RATE) * (float)(i % (64 * RATE)));
    open_stream(b, &h, &(struct live_open){.alarm_hop_s = 0.25});
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    order(b, LIVE_FINISH, h.stream);
    run(b);
    for (struct live_report *r; (r = next(b)); live_report_free(r))
        for (int i = 0; i < r->quality.n; i++) {
            flat += r->quality.channels[i].channel < 2 && r->quality.channels[i].flaws == QUALITY_FLAT;
            other += r->quality.channels[i].channel == 2 || r->quality.channels[i].flaws != QUALITY_FLAT;
        }
    assert_in_range(flat, 2 * (SECONDS - 4), 2 * SECONDS);
    assert_int_equal(other, 0);
    close_stream(b, &h);
}

static void integers_times_their_scale_are_the_same_samples(void **state) {
    struct bench *b = *state;
    struct heard one, other, *o = &other;
    whole(b, &one);
    open_stream(b, &other, &(struct live_open){.format = LIVE_I16, .scale_uv = 1, .alarm_hop_s = -1});
    struct live_order *c = live_order_new(LIVE_CHUNK, other.stream);
    c->data = malloc(CHANNELS * SAMPLES * 2);
    for (int64_t i = 0; i < CHANNELS * SAMPLES; i++) {
        int16_t v = (int16_t)b->x[i]; /* the signal is of whole microvolts */
        c->data[2 * i] = (uint8_t)(v & 0xff);
        c->data[2 * i + 1] = (uint8_t)((uint16_t)v >> 8);
    }
    c->samples = SAMPLES;
    live_order(b->live, c);
    order(b, LIVE_FINISH, other.stream);
    run(b);
    listen(b, &o, 1);
    assert_memory_equal(one.p, other.p, SAMPLES * sizeof(float));
    close_stream(b, &one);
    close_stream(b, &other);
}

static void a_gap_of_a_day_is_one_report_without_samples(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    const int64_t day = INT64_C(24) * 3600 * RATE;
    open_stream(b, &h, NULL);
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES / 2, 0));
    gap(b, h.stream, day);
    live_order(b->live, chunk(b, h.stream, SAMPLES / 2, SAMPLES, 0));
    order(b, LIVE_FINISH, h.stream);
    run(b);
    listen(b, &one, 1);
    assert_int_equal(h.gaps, 1);
    assert_int_equal(h.gap_first, SAMPLES / 2);
    assert_int_equal(h.gap_samples, day);
    assert_int_equal(h.at, SAMPLES + day);
    assert_int_equal(h.summaries, 1);
    assert_true(h.bytes < LIVE_CREDIT_BYTES); /* a day of values would be 88 MB */
    close_stream(b, &h);
}

static void alarms_are_decided_as_often_as_asked(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    open_stream(b, &h, &(struct live_open){.alarm_hop_s = 0.25});
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    run(b);
    listen(b, &one, 1);
    assert_int_equal(h.alarm_hop, RATE / 4);
    assert_int_equal(h.provisional, 4 * SECONDS);
    close_stream(b, &h);
    open_stream(b, &h, &(struct live_open){.alarm_hop_s = 0.3}); /* divides no hop */
    listen(b, &one, 1);
    assert_int_equal(h.failures, 1);
    close_stream(b, &h);
}

/* ---- saved states ---- */

static void a_stream_goes_on_from_its_saved_state_to_the_bit(void **state) {
    struct bench *b = *state;
    struct heard one, other, *o = &other;
    whole(b, &one);
    open_stream(b, &other, NULL);
    float p[SAMPLES];
    int64_t at = 0, given = 0, cut = 7 * RATE + 31;
    for (int part = 0; part < 3; part++, cut += 5 * RATE) {
        int64_t end = part < 2 ? cut : SAMPLES;
        live_order(b->live, chunk(b, other.stream, at, end, 0));
        at = end;
        if (part == 2)
            order(b, LIVE_FINISH, other.stream);
        run(b);
        other.at = given;
        listen(b, &o, 1);
        memcpy(p + given, other.p + given, (size_t)(other.at - given) * sizeof *p);
        given = other.at;
        if (part == 2)
            break;
        order(b, LIVE_SAVE, other.stream);
        struct live_report *saved = next(b);
        assert_int_equal(saved->message.kind, LIVE_SAVED);
        assert_int_equal(saved->err.code, 0);
        close_stream(b, &other);
        struct live_open again = {
            .checkpoint = b->path, .model = "m", .labels = labels, .n_labels = CHANNELS, .rate_hz = RATE, .alarm_hop_s = -1};
        other = (struct heard){.stream = live_stream_new(&again, &other), .at = given};
        struct live_order *open = live_order_new(LIVE_OPEN, other.stream);
        open->data = (uint8_t *)saved->state;
        open->data_bytes = (int64_t)saved->state_len;
        saved->state = NULL;
        live_report_free(saved);
        order_model(b, open);
        listen(b, &o, 1);
        assert_int_equal(other.opened, 1);
        assert_true(isnan(live_stream_newest_s(other.stream))); /* no chunk has come: there is no lag to measure */
    }
    assert_int_equal(other.summaries, 1);
    assert_int_equal(other.windows, one.windows);
    assert_memory_equal(p, one.p, SAMPLES * sizeof *p);
    close_stream(b, &one);
    close_stream(b, &other);
}

static void a_saved_state_that_is_cut_or_changed_fails_its_stream_alone(void **state) {
    struct bench *b = *state;
    struct heard h, one, *o = &h;
    open_stream(b, &h, NULL);
    live_order(b->live, chunk(b, h.stream, 0, 3 * RATE, 0));
    run(b);
    order(b, LIVE_SAVE, h.stream);
    struct live_report *saved = NULL, *r;
    while ((r = next(b)))
        if (r->message.kind == LIVE_SAVED)
            saved = r;
        else
            live_report_free(r);
    assert_non_null(saved);
    close_stream(b, &h);
    for (size_t len = 1; len < saved->state_len; len = len * 2 + 1) {
        open_stream(b, &h, NULL); /* only for a stream of these settings */
        close_stream(b, &h);
        struct live_open again = {.checkpoint = b->path, .model = "m", .labels = labels, .n_labels = CHANNELS, .rate_hz = RATE};
        h = (struct heard){.stream = live_stream_new(&again, &h)};
        struct live_order *open = live_order_new(LIVE_OPEN, h.stream);
        open->data = malloc(len);
        open->data_bytes = (int64_t)len;
        memcpy(open->data, saved->state, len);
        order_model(b, open);
        listen(b, &o, 1);
        assert_int_equal(h.failures, 1);
        assert_int_equal(h.err.code, ERR_DATA_LOSS);
        close_stream(b, &h);
    }
    live_report_free(saved);
    whole(b, &one);
    close_stream(b, &one);
}

/* ---- credit ---- */

static void a_stream_whose_reports_are_not_released_stops_and_goes_on(void **state) {
    struct bench *b = *state;
    struct heard one, other, *o = &other;
    whole(b, &one);
    open_stream(b, &other, NULL);
    live_order(b->live, chunk(b, other.stream, 0, SAMPLES, 0));
    order(b, LIVE_FINISH, other.stream);
    assert_false(live_stream_release(other.stream, -LIVE_CREDIT_BYTES)); /* its owner holds so much */
    assert_int_equal(live_step(b->live), LIVE_IDLE);
    listen(b, &o, 1);
    assert_int_equal(other.results, 0);
    assert_true(live_stream_release(other.stream, LIVE_CREDIT_BYTES)); /* a WAKE is due */
    order(b, LIVE_WAKE, other.stream);
    run(b);
    listen(b, &o, 1);
    assert_int_equal(other.summaries, 1);
    assert_memory_equal(one.p, other.p, SAMPLES * sizeof(float));
    assert_true(other.bytes >= SAMPLES * (int64_t)sizeof(float));
    assert_false(live_stream_release(other.stream, other.bytes)); /* it had credit all the time */
    close_stream(b, &one);
    close_stream(b, &other);
}

static void unreleased_reports_are_bounded_by_the_credit_and_one_batch(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    open_stream(b, &h, NULL);
    for (int round = 0; round < 30; round++) { /* ten minutes: 614,400 bytes of trace */
        live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
        run(b);
    }
    listen(b, &one, 1);
    assert_true(h.bytes >= LIVE_CREDIT_BYTES);
    assert_true(h.bytes <=
                LIVE_CREDIT_BYTES + (int64_t)(LIVE_BATCH_CPU * (2 * WINDOW * sizeof(float) + sizeof(struct live_report))));
    close_stream(b, &h);
}

/* ---- turns ---- */

static struct live_order *received_now(struct live_order *o) {
    o->received_s = clock_s();
    return o;
}

static void live_streams_run_before_replays_and_all_get_turns(void **state) {
    struct bench *b = *state;
    struct heard replay, one, two, *all[] = {&replay, &one, &two};
    open_stream(b, &replay, &(struct live_open){.alarm_hop_s = -1});
    open_stream(b, &one, &(struct live_open){.alarm_hop_s = -1, .realtime = true});
    open_stream(b, &two, &(struct live_open){.alarm_hop_s = -1, .realtime = true});
    for (int i = 0; i < 3; i++)
        live_order(b->live, chunk(b, all[i]->stream, 0, SAMPLES, 0));
    assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
    assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
    listen(b, all, 3);
    assert_int_equal(replay.results, 0);
    assert_true(one.at > 0 && two.at > 0); /* the second batch was the other stream's */
    enum live_step ran = LIVE_RAN_REALTIME;
    while (ran == LIVE_RAN_REALTIME)
        ran = live_step(b->live);
    assert_int_equal(ran, LIVE_RAN_REPLAY);
    run(b);
    listen(b, all, 3);
    assert_true(replay.at == one.at && one.at == two.at);
    for (int i = 0; i < 3; i++)
        close_stream(b, all[i]);
}

static void a_live_stream_that_runs_ahead_of_real_time_waits_for_the_others(void **state) {
    enum { CHUNKS = 30, HELD_BACK = 9, CUT_S = 200 }; /* of 20 s */
    struct bench *b = *state;
    struct heard racer, bed, *all[] = {&racer, &bed};
    open_stream(b, &racer, &(struct live_open){.alarm_hop_s = -1, .realtime = true});
    open_stream(b, &bed, &(struct live_open){.alarm_hop_s = -1, .realtime = true});
    for (int i = 0; i < CHUNKS; i++) {
        struct live_order *o = received_now(chunk(b, racer.stream, 0, SAMPLES, 0));
        o->received_s -= i ? 0 : CUT_S;
        live_order(b->live, o);
        if (i <= HELD_BACK) /* it may be what a cut held back */
            assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
        run(b);
        int64_t before = racer.bytes;
        listen(b, all, 2);
        live_stream_release(racer.stream, racer.bytes - before);
    }
    live_order(b->live, received_now(chunk(b, racer.stream, 0, SAMPLES, 0)));
    live_order(b->live, received_now(chunk(b, bed.stream, 0, (int64_t)LIVE_AHEAD_S * RATE, 0)));
    int64_t at = racer.at;
    enum live_step ran = live_step(b->live);
    for (; ran == LIVE_RAN_REALTIME; ran = live_step(b->live)) {
        listen(b, all, 2);
        assert_int_equal(racer.at, at);
    }
    assert_true(bed.at > 0);
    assert_int_equal(ran, LIVE_RAN_REPLAY);
    run(b);
    listen(b, all, 2);
    assert_true(racer.at > at);
    for (int i = 0; i < 2; i++)
        close_stream(b, all[i]);
}

/* A stream that was never cut may not send five minutes at once and be served before others. */
static void a_live_stream_that_was_heard_all_the_time_has_no_credit(void **state) {
    struct bench *b = *state;
    struct heard racer;
    open_stream(b, &racer, &(struct live_open){.alarm_hop_s = -1, .realtime = true});
    live_order(b->live, received_now(chunk(b, racer.stream, 0, SAMPLES, 0))); /* 20 s */
    assert_int_equal(live_step(b->live), LIVE_RAN_REPLAY);
    run(b);
    close_stream(b, &racer);
}

/* Four streams of one caller have as much to do as they can get; the bed of another has little, and came later. */
static void a_caller_that_took_more_time_waits_for_one_that_took_less(void **state) {
    enum { GREEDY = 4, ROUNDS = 6 };
    struct bench *b = *state;
    struct heard greedy[GREEDY], bed, *all[GREEDY + 1];
    for (int i = 0; i < GREEDY; i++)
        open_stream(b, all[i] = &greedy[i], &(struct live_open){.alarm_hop_s = 0.25, .realtime = true, .owner = 1});
    open_stream(b, all[GREEDY] = &bed, &(struct live_open){.alarm_hop_s = -1, .realtime = true, .owner = 2});
    const double now_s = clock_s();
    for (int i = 0; i < GREEDY; i++) {
        struct live_order *o = chunk(b, greedy[i].stream, 0, (int64_t)LIVE_AHEAD_S * RATE, 0);
        o->received_s = now_s;
        live_order(b->live, o);
    }
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
    listen(b, all, GREEDY + 1);
    struct live_order *o = chunk(b, bed.stream, 0, 2 * WINDOW, 0);
    o->received_s = now_s + 1e-6; /* later than all that the others have */
    live_order(b->live, o);
    for (int i = 0; i < 8 && !bed.at; i++) {
        assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
        listen(b, all, GREEDY + 1);
    }
    assert_true(bed.at > 0);
    assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME); /* while the others still have work */
    run(b);
    for (int i = 0; i <= GREEDY; i++)
        close_stream(b, all[i]);
}

static void replays_wait_with_windows_for_whole_batches(void **state) {
    enum { REPLAYS = 3, PIECE = RATE };
    struct bench *b = *state;
    struct heard alone, streams[REPLAYS], *all[REPLAYS];
    int64_t windows = 0;
    int steps = 0;
    whole(b, &alone);
    close_stream(b, &alone);
    close_live(b);
    b->batch = LIVE_MAX_BATCH;
    b->live = live_of(b, 0);
    for (int i = 0; i < REPLAYS; i++) {
        all[i] = &streams[i];
        open_stream(b, all[i], NULL);
        for (int64_t at = 0; at < SAMPLES; at += PIECE)
            live_order(b->live, chunk(b, all[i]->stream, at, at + PIECE, 0));
        order(b, LIVE_FINISH, all[i]->stream);
    }
    while (live_step(b->live) != LIVE_IDLE)
        steps++;
    listen(b, all, REPLAYS);
    for (int i = 0; i < REPLAYS; i++) {
        windows += streams[i].windows;
        assert_int_equal(streams[i].windows, alone.windows);
        assert_memory_equal(streams[i].p, alone.p, SAMPLES * sizeof(float));
        close_stream(b, all[i]);
    }
    assert_int_equal(steps, (windows + LIVE_MAX_BATCH - 1) / LIVE_MAX_BATCH);
}

static struct live_order *received_at(struct live_order *o, double s) {
    o->received_s = s;
    return o;
}

/* Each has one window. */
static void live_streams_wait_for_others_until_a_batch_is_full_or_the_delay_is_over(void **state) {
    enum { STREAMS = LIVE_BATCH_CPU + 1, DELAY_MS = 1000 * 1000, N = WINDOW };
    struct bench *b = *state;
    struct heard streams[STREAMS], replay, *all[STREAMS];
    close_live(b);
    b->max_delay_ms = DELAY_MS;
    b->live = live_of(b, 0);
    open_stream(b, &replay, NULL);
    for (int i = 0; i < STREAMS; i++)
        open_stream(b, all[i] = &streams[i], &(struct live_open){.alarm_hop_s = -1, .realtime = true});
    assert_int_equal(live_step(b->live), LIVE_IDLE);
    assert_int_equal(live_pause_ms(b->live), -1); /* nobody waits */
    live_order(b->live, chunk(b, replay.stream, 0, N, 0));
    for (int i = 0; i < LIVE_BATCH_CPU; i++) {
        live_order(b->live, received_now(chunk(b, all[i]->stream, 0, N, 0)));
        if (i == LIVE_BATCH_CPU - 1)
            break;
        assert_int_equal(live_step(b->live), LIVE_IDLE); /* a replay must not come between */
        assert_in_range(live_pause_ms(b->live), 1, DELAY_MS);
    }
    assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
    listen(b, all, STREAMS);
    for (int i = 0; i < LIVE_BATCH_CPU; i++)
        assert_true(streams[i].at > 0); /* together */
    live_order(b->live, received_at(chunk(b, all[STREAMS - 1]->stream, 0, N, 0), clock_s() - DELAY_MS / 1000.0));
    assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME); /* the last stream has waited for so long */
    listen(b, all, STREAMS);
    assert_true(streams[STREAMS - 1].at > 0);
    for (int i = 0; i < STREAMS; i++)
        close_stream(b, all[i]);
    assert_int_equal(live_step(b->live), LIVE_RAN_REPLAY);
    close_stream(b, &replay);
}

static void a_few_streams_do_not_wait(void **state) {
    enum { DELAY_MS = 1000 * 1000 };
    struct bench *b = *state;
    struct heard one, other;
    const struct live_open live = {.alarm_hop_s = -1, .realtime = true};
    close_live(b);
    b->max_delay_ms = DELAY_MS;
    b->least_streams = 2;
    b->live = live_of(b, 0);
    open_stream(b, &one, &live);
    live_order(b->live, received_now(chunk(b, one.stream, 0, WINDOW, 0)));
    assert_int_equal(live_step(b->live), LIVE_RAN_REALTIME);
    open_stream(b, &other, &live);
    live_order(b->live, received_now(chunk(b, other.stream, 0, WINDOW, 0)));
    assert_int_equal(live_step(b->live), LIVE_IDLE);
    assert_in_range(live_pause_ms(b->live), 1, DELAY_MS);
    close_stream(b, &one);
    close_stream(b, &other);
}

/* ---- the end ---- */

static void a_failure_is_reported_once_and_then_only_closed(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    open_stream(b, &h, &(struct live_open){.checkpoint = "/proc/nonexistent/model"});
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    live_order(b->live, chunk(b, h.stream, 0, 100, 0));
    run(b);
    order(b, LIVE_FINISH, h.stream);
    run(b);
    listen(b, &one, 1);
    assert_int_equal(h.failures, 1);
    assert_int_equal(h.results + h.summaries, 0);
    assert_int_equal(live_step(b->live), LIVE_IDLE);
    close_stream(b, &h);
}

static void samples_that_are_no_numbers_are_held_over_and_told_and_touch_no_other_stream(void **state) {
    struct bench *b = *state;
    struct heard clean, other, *all[] = {&clean, &other};
    whole(b, &clean);
    close_stream(b, &clean);
    float *x = malloc(sizeof b->x);
    memcpy(x, b->x, sizeof b->x);
    struct heard bad;
    open_stream(b, &bad, NULL);
    open_stream(b, &other, NULL);
    for (int64_t at = 0; at < SAMPLES; at += RATE) {
        for (int64_t i = at; i < at + RATE; i++)
            b->x[2 * SAMPLES + i] = i % 2 ? NAN : INFINITY;
        live_order(b->live, chunk(b, bad.stream, at, at + RATE, 0));
        memcpy(b->x, x, sizeof b->x);
        live_order(b->live, chunk(b, other.stream, at, at + RATE, 0));
    }
    order(b, LIVE_FINISH, bad.stream);
    order(b, LIVE_FINISH, other.stream);
    run(b);
    int told = 0, finite = 0;
    struct live_report *r;
    other.at = 0;
    while ((r = next(b))) {
        for (int i = 0; i < r->quality.n; i++) {
            assert_ptr_equal(r->stream, bad.stream);
            told += r->quality.channels[i].channel == 2 && r->quality.channels[i].flaws == QUALITY_MISSING;
        }
        if (r->message.kind == LIVE_RESULT && r->stream == other.stream)
            hear_result(&other, r);
        for (int64_t i = 0; r->p && r->stream == bad.stream && i < r->samples; i++)
            finite += isfinite(r->p[i]) != 0;
        live_report_free(r);
    }
    assert_true(told >= SECONDS - 2);
    assert_int_equal(finite, SAMPLES);
    assert_memory_equal(other.p, clean.p, SAMPLES * sizeof(float));
    free(x);
    close_stream(b, &bad);
    close_stream(b, all[1]);
}

static void orders_are_answered_whatever_memory_is_left(void **state) {
    struct bench *b = *state;
    struct heard one, other;
    open_stream(b, &one, NULL);
    open_stream(b, &other, NULL);
    for (struct live_report *r; (r = next(b)); live_report_free(r))
        assert_int_equal(r->message.kind, LIVE_OPENED);
    struct live_order *orders[] = {chunk(b, one.stream, 0, 100, 0),           live_order_new(LIVE_SAVE, one.stream),
                                   live_order_new(LIVE_LOAD, NULL),           live_order_new(LIVE_UNLOAD, NULL),
                                   live_order_new(LIVE_FINISH, other.stream), live_order_new(LIVE_CLOSE, one.stream),
                                   live_order_new(LIVE_CLOSE, other.stream)};
    static const enum live_report_kind wanted[] = {LIVE_CONSUMED, LIVE_SAVED,  LIVE_LOADED, LIVE_UNLOADED,
                                                   LIVE_SUMMARY,  LIVE_CLOSED, LIVE_CLOSED};
    snprintf(orders[2]->checkpoint, sizeof orders[2]->checkpoint, "%s", b->path);
    snprintf(orders[3]->checkpoint, sizeof orders[3]->checkpoint, "%s", b->path);
    memory_short = true;
    assert_null(live_order_new(LIVE_SAVE, one.stream)); /* what could not be answered is not ordered */
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        if (wanted[i] == LIVE_LOADED)
            order_model(b, orders[i]);
        else
            live_order(b->live, orders[i]);
        run(b);
        struct live_report *r = next(b);
        assert_non_null(r);
        assert_int_equal(r->message.kind, wanted[i]);
        assert_int_equal(r->err.code, 0);
        live_report_free(r);
        assert_null(next(b));
    }
    memory_short = false;
    live_stream_free(one.stream);
    live_stream_free(other.stream);
}

static void a_result_is_given_whole_or_not_at_all(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    open_stream(b, &h, NULL);
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    scarce = HOP * sizeof(float); /* the values of a result */
    run(b);
    scarce = 0;
    listen(b, &one, 1);
    assert_int_equal(h.failures, 1);
    assert_int_equal(h.err.code, ERR_EXHAUSTED);
    assert_int_equal(h.results, 0);
    close_stream(b, &h);
}

static void what_waits_for_an_abandoned_stream_is_dropped(void **state) {
    struct bench *b = *state;
    struct heard h, *one = &h;
    open_stream(b, &h, NULL);
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    assert_int_equal(live_step(b->live), LIVE_RAN_REPLAY); /* windows wait in its timeline now */
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    listen(b, &one, 1);
    int results = h.results;
    live_stream_abandon(h.stream);
    assert_int_equal(live_step(b->live), LIVE_IDLE);
    run(b);
    live_order(b->live, chunk(b, h.stream, 0, SAMPLES, 0));
    order(b, LIVE_CLOSE, h.stream);
    listen(b, &one, 1);
    assert_int_equal(h.results, results);
    assert_int_equal(h.closed, 1);
    live_stream_free(h.stream);
}

int main(void) {
#define LIVE_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {LIVE_TEST(chunks_of_any_size_and_overlaps_give_the_same_trace),
                                       LIVE_TEST(only_a_stream_in_real_time_keeps_eeg_for_people),
                                       LIVE_TEST(replays_side_by_side_are_the_same_on_any_number_of_lanes),
                                       LIVE_TEST(a_step_takes_in_samples_of_as_many_replays_as_there_are_lanes),
                                       LIVE_TEST(results_and_their_numbers_depend_on_no_chunking),
                                       LIVE_TEST(what_is_flat_behind_the_filters_is_flat_though_its_samples_move),
                                       LIVE_TEST(integers_times_their_scale_are_the_same_samples),
                                       LIVE_TEST(a_gap_of_a_day_is_one_report_without_samples),
                                       LIVE_TEST(alarms_are_decided_as_often_as_asked),
                                       LIVE_TEST(a_stream_goes_on_from_its_saved_state_to_the_bit),
                                       LIVE_TEST(a_saved_state_that_is_cut_or_changed_fails_its_stream_alone),
                                       LIVE_TEST(a_stream_whose_reports_are_not_released_stops_and_goes_on),
                                       LIVE_TEST(unreleased_reports_are_bounded_by_the_credit_and_one_batch),
                                       LIVE_TEST(live_streams_run_before_replays_and_all_get_turns),
                                       LIVE_TEST(a_live_stream_that_runs_ahead_of_real_time_waits_for_the_others),
                                       LIVE_TEST(a_live_stream_that_was_heard_all_the_time_has_no_credit),
                                       LIVE_TEST(a_caller_that_took_more_time_waits_for_one_that_took_less),
                                       LIVE_TEST(replays_wait_with_windows_for_whole_batches),
                                       LIVE_TEST(live_streams_wait_for_others_until_a_batch_is_full_or_the_delay_is_over),
                                       LIVE_TEST(a_few_streams_do_not_wait),
                                       LIVE_TEST(a_failure_is_reported_once_and_then_only_closed),
                                       LIVE_TEST(samples_that_are_no_numbers_are_held_over_and_told_and_touch_no_other_stream),
                                       LIVE_TEST(a_result_is_given_whole_or_not_at_all),
                                       LIVE_TEST(orders_are_answered_whatever_memory_is_left),
                                       LIVE_TEST(what_waits_for_an_abandoned_stream_is_dropped)};
    if (getenv("BRR_TEST_FILTER"))
        cmocka_set_test_filter(getenv("BRR_TEST_FILTER"));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
