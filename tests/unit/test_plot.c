/* Pictures: well-formed whatever the texts and values, bounded whatever the length, everything drawn where it belongs. With
 * BRR_PLOT_DIR set the pictures stay there to be looked at. */

#include "base/rng.h"
#include "plot/course.h"
#include "plot/plot.h"
#include "plot/plot_compare.h"
#include "plot/plot_operating.h"
#include "plot/plot_strips.h"
#include "unit/cmocka_all.h"
#include "unit/eeg_fixture.h"

enum { HOUR_S = 3600, RATE = 256, CHANNELS = 6 };

struct folder {
    char path[256], file[512];
    bool keep;
};

static int setup(void **state) {
    struct folder *f = calloc(1, sizeof *f);
    const char *dir = getenv("BRR_PLOT_DIR");
    if (dir) {
        snprintf(f->path, sizeof f->path, "%s", dir);
        f->keep = true;
    } else {
        fixture_folder(f->path, sizeof f->path);
    }
    *state = f;
    return 0;
}

static int teardown(void **state) {
    struct folder *f = *state;
    if (!f->keep)
        fixture_remove(f->path);
    free(f);
    return 0;
}

static char *read_text(const char *path) {
    struct fsio_map map;
    assert_int_equal(fsio_map_open(&map, path, NULL), 0);
    char *text = calloc(1, map.len + 1);
    memcpy(text, map.data, map.len);
    fsio_map_close(&map);
    return text;
}

/* Tags balance, attributes are quoted, no stray '<' or '&'. */
static void check_xml(const char *text) {
    char stack[16][16];
    int depth = 0, elements = 0;
    for (const char *at = text; *at;) {
        if (*at == '&') {
            const char *end = strchr(at, ';');
            assert_true(at[1] == '#' && end && end - at < 7);
            at = end + 1;
            continue;
        }
        if (*at != '<') {
            assert_true(*at != '>' && (depth > 0 || *at == '\n'));
            at++;
            continue;
        }
        bool closing = at[1] == '/';
        char name[16] = "";
        assert_int_equal(sscanf(at + 1 + closing, "%15[a-z]", name), 1);
        bool quoted = false;
        for (at++; *at && (quoted || *at != '>'); at++)
            if (*at == '"')
                quoted = !quoted;
            else
                assert_true(*at != '<');
        assert_true(*at == '>' && !quoted);
        if (closing) {
            assert_true(depth > 0);
            assert_string_equal(stack[--depth], name);
        } else if (at[-1] != '/') {
            assert_true(depth < 16);
            memcpy(stack[depth++], name, sizeof name);
        }
        elements += !closing;
        at++;
    }
    assert_int_equal(depth, 0);
    assert_true(elements > 10);
}

static int count_of(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

static const struct plot_span seizures[] = {{600, 662}, {2400, 2431}}, found[] = {{604, 668}, {1500, 1509}, {2405, 2436}};
static const double alarms[] = {610, 1505, 2410};

/* An hour of noise with rhythmic seizures, a gap, and the probability that goes with it. */
static void make_recording(struct plot_trace *channels, struct plot_trace *probability) {
    static float uv[RATE], p[RATE];
    struct rng rng;
    rng_init(&rng, 3, RNG_SYNTH, 0);
    for (int c = 0; c < CHANNELS; c++)
        plot_trace_init(&channels[c], ((const char *[]){"Fp1", "C3", "O1", "Fp2", "C4", "O2"})[c], HOUR_S, RATE);
    plot_trace_init(probability, "p", HOUR_S, RATE);
    for (int s = 0; s < HOUR_S; s++) {
        if (s >= 3000 && s < 3060)
            continue;
        bool ictal = (s >= 600 && s < 662) || (s >= 2400 && s < 2431);
        for (int c = 0; c < CHANNELS; c++) {
            for (int i = 0; i < RATE; i++)
                uv[i] = (float)((ictal ? 70 * sin(2 * M_PI * 3 * i / RATE) : 0) + (12 + c) * rng_normal(&rng));
            plot_trace_add(&channels[c], (int64_t)s * RATE, uv, RATE);
        }
        double level = ictal && s % 600 > 4 ? 0.93 : s >= 1500 && s < 1510 ? 0.85 : 0.06;
        for (int i = 0; i < RATE; i++)
            p[i] = (float)fmin(1, fmax(0, level + 0.04 * rng_normal(&rng)));
        plot_trace_add(probability, (int64_t)s * RATE, p, RATE);
    }
}

static void a_recording_is_drawn_with_everything_it_has(void **state) {
    struct folder *f = *state;
    static struct plot_trace channels[CHANNELS], probability;
    const struct plot_trace *list[CHANNELS];
    make_recording(channels, &probability);
    for (int c = 0; c < CHANNELS; c++)
        list[c] = &channels[c];
    struct plot_recording r = {.title = "sub-01_run-03_eeg.edf",
                               .subtitle = "model tiny, step 1,200 · referential-19 · event F1 0.80, 24 false alarms per 24 h",
                               .duration_s = HOUR_S,
                               .channels = list,
                               .n_channels = CHANNELS,
                               .probability = &probability,
                               .on = 0.6,
                               .off = 0.5,
                               .detected = found,
                               .n_detected = 3,
                               .reference = seizures,
                               .n_reference = 2,
                               .has_reference = true,
                               .alarms_s = alarms,
                               .n_alarms = 3};
    snprintf(f->file, sizeof f->file, "%s/recording.svg", f->path);
    assert_int_equal(plot_recording(f->file, &r, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_int_equal(count_of(text, "class=\"detected\"><title>"), 3);
    assert_int_equal(count_of(text, "class=\"reference\"><title>"), 2);
    assert_int_equal(count_of(text, "class=\"shade\""), 2);
    assert_int_equal(count_of(text, "<title>alarm at"), 3);
    assert_int_equal(count_of(text, "class=\"eeg\""), CHANNELS);
    assert_non_null(strstr(text, "<title>10:04 to 11:08, 64.0 s</title>"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    assert_true(strlen(text) < 200000);
    free(text);
}

static void an_unlabelled_recording_without_events_and_a_day_long_one_are_drawn_too(void **state) {
    struct folder *f = *state;
    static struct plot_trace probability;
    plot_trace_init(&probability, "p", 86400, 1);
    static float p[86400];
    for (int i = 0; i < 86400; i++)
        p[i] = i < 40000 || i > 50000 ? (float)(0.3 + 0.1 * sin(i / 3000.0)) : NAN;
    plot_trace_add(&probability, 0, p, 86400);
    struct plot_recording r = {.title = "night", .duration_s = 86400, .probability = &probability};
    snprintf(f->file, sizeof f->file, "%s/day.svg", f->path);
    assert_int_equal(plot_recording(f->file, &r, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_int_equal(count_of(text, "class=\"reference\""), 0);
    assert_non_null(strstr(text, ">12:00:00<"));
    free(text);
    struct plot_recording bare = {.title = "nothing", .duration_s = 0.4};
    snprintf(f->file, sizeof f->file, "%s/bare.svg", f->path);
    assert_int_equal(plot_recording(f->file, &bare, NULL), 0);
    text = read_text(f->file);
    check_xml(text);
    free(text);
}

static void chains_stand_apart_and_the_clock_runs_on(void **state) {
    struct folder *f = *state;
    static const char *const names[] = {"Fp1-F7", "F7-T3", "Fp2-F8"};
    static struct plot_trace channels[3];
    const struct plot_trace *list[3];
    float value = 1;
    for (int c = 0; c < 3; c++) {
        plot_trace_init(&channels[c], names[c], 3600, 1);
        plot_trace_add(&channels[c], 0, &value, 1);
        list[c] = &channels[c];
    }
    struct plot_recording r = {
        .title = "night", .has_clock = true, .clock_s = 23.5 * 3600, .duration_s = 3600, .channels = list, .n_channels = 3};
    snprintf(f->file, sizeof f->file, "%s/chains.svg", f->path);
    assert_int_equal(plot_recording(f->file, &r, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    double y[3];
    for (int c = 0; c < 3; c++) {
        char *label = strstr(text, names[c]);
        assert_non_null(label);
        while (strncmp(label, "y=\"", 3) != 0)
            label--;
        assert_int_equal(sscanf(label, "y=\"%lf\"", &y[c]), 1);
    }
    assert_true(y[2] - y[1] > y[1] - y[0] + 4);
    assert_non_null(strstr(text, ">23:30<"));
    assert_non_null(strstr(text, ">00:00<"));
    assert_int_equal(count_of(text, ">alarms<"), 0);
    free(text);
    for (int c = 0; c < 3; c++) /* no chains with one reference: the picture is lower */
        str_copy(channels[c].name, sizeof channels[c].name, c ? "C3-REF" : "C4-REF");
    double height[2];
    assert_int_equal(sscanf(strstr(text = read_text(f->file), "height=\""), "height=\"%lf\"", &height[0]), 1);
    free(text);
    assert_int_equal(plot_recording(f->file, &r, NULL), 0);
    assert_int_equal(sscanf(strstr(text = read_text(f->file), "height=\""), "height=\"%lf\"", &height[1]), 1);
    free(text);
    assert_true(height[1] < height[0] - 4);
    r.has_alarms = true; /* none went off, and that is shown */
    assert_int_equal(plot_recording(f->file, &r, NULL), 0);
    text = read_text(f->file);
    assert_int_equal(count_of(text, ">alarms<"), 1);
    free(text);
}

static void texts_cannot_break_the_picture(void **state) {
    struct folder *f = *state;
    struct plot_recording r = {
        .title = "a<script>alert(\"&\")</script>\n", .subtitle = "M\xfcller \xc3\xbc \xed\xa0\x80 \xe2\x82", .duration_s = 10};
    snprintf(f->file, sizeof f->file, "%s/texts.svg", f->path);
    assert_int_equal(plot_recording(f->file, &r, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_null(strstr(text, "<script"));
    assert_non_null(strstr(text, "a&#60;script&#62;alert(&#34;&#38;&#34;)&#60;/script&#62;?"));
    assert_non_null(strstr(text, "M?ller \xc3\xbc ?"
                                 "?"
                                 "? ?"
                                 "?<"));
    free(text);
}

static void envelopes_keep_extremes_and_leave_gaps_open(void **state) {
    (void)state;
    static struct plot_trace t;
    float values[2000];
    plot_trace_init(&t, "x", 1000, 2); /* two samples a column */
    for (int i = 0; i < 2000; i++)
        values[i] = (float)(i % 2 ? i : -i);
    values[11] = NAN;
    values[20] = values[21] = NAN;
    plot_trace_add(&t, 1000, values + 1000, 1000);
    plot_trace_add(&t, 0, values, 1000);
    plot_trace_add(&t, -5, values, 5);
    plot_trace_add(&t, 2000, values, 2000);
    assert_true(t.low[5] == -10 && t.high[5] == -10);
    assert_true(t.low[10] > t.high[10]);
    assert_true(t.low[0] == 0 && t.high[0] == 1 && t.sum[0] == 1 && t.count[0] == 2);
    assert_true(t.low[999] == -1998 && t.high[999] == 1999);
}

static void impossible_recordings_are_refused(void **state) {
    struct folder *f = *state;
    struct err err = {0};
    struct plot_recording r = {.title = "x"};
    snprintf(f->file, sizeof f->file, "%s/none.svg", f->path);
    assert_int_equal(plot_recording(f->file, &r, &err), ERR_INVALID);
    r.duration_s = 10;
    r.n_channels = PLOT_MAX_CHANNELS + 1;
    assert_int_equal(plot_recording(f->file, &r, &err), ERR_INVALID);
    assert_false(fsio_exists(f->file));
    struct plot_training t = {.title = "x"};
    assert_int_equal(plot_training(f->file, &t, &err), ERR_INVALID);
}

static void a_training_shows_loss_and_scores(void **state) {
    struct folder *f = *state;
    enum { STEPS = 5000, VALIDATIONS = 10 };
    static struct plot_point loss[STEPS], validation[VALIDATIONS], f1[VALIDATIONS], auroc[VALIDATIONS];
    struct rng rng;
    rng_init(&rng, 5, RNG_SYNTH, 0);
    for (int i = 0; i < STEPS; i++)
        loss[i] = (struct plot_point){i + 1, i == 700 ? NAN : 0.08 + 0.35 * exp(-i / 900.0) + 0.02 * rng_normal(&rng)};
    for (int i = 0; i < VALIDATIONS; i++) {
        double step = STEPS * (i + 1) / VALIDATIONS;
        validation[i] = (struct plot_point){step, 0.11 + 0.3 * exp(-step / 1000) + 0.003 * i};
        f1[i] = (struct plot_point){step, 0.85 - 0.8 * exp(-step / 1500)};
        auroc[i] = (struct plot_point){step, 0.97 - 0.4 * exp(-step / 800)};
    }
    const struct plot_curve losses[] = {{"training loss", loss, STEPS}, {"validation loss", validation, VALIDATIONS}};
    const struct plot_curve scores[] = {{"event F1", f1, VALIDATIONS}, {"AUROC", auroc, VALIDATIONS}};
    struct plot_training t = {"tiny", "13 h of EEG, 5 patients", losses, scores, 2, 2, 4000, NULL};
    snprintf(f->file, sizeof f->file, "%s/training.svg", f->path);
    assert_int_equal(plot_training(f->file, &t, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_int_equal(count_of(text, "<path class=\"line"), 4);
    assert_null(strstr(text, "nan"));
    assert_true(strlen(text) < 40000);
    assert_int_equal(count_of(text, ">validation loss<"), 1);
    free(text);
    for (int i = 0; i < VALIDATIONS; i++)
        validation[i].y = NAN; /* no value: the legend does not name it */
    assert_int_equal(plot_training(f->file, &t, NULL), 0);
    text = read_text(f->file);
    assert_int_equal(count_of(text, ">validation loss<"), 0);
    assert_int_equal(count_of(text, ">training loss<"), 1);
    free(text);
    const struct plot_curve lone = {"training loss", loss, 1};
    t = (struct plot_training){.title = "ten steps", .losses = &lone, .n_losses = 1};
    assert_int_equal(plot_training(f->file, &t, NULL), 0);
    text = read_text(f->file);
    assert_non_null(strstr(text, "l-4 0\"/>")); /* one point is seen as a dash */
    free(text);
}

/* Without losses the scores have the axis alone, and each point a mark with its number. */
static void scores_alone_have_marks(void **state) {
    struct folder *f = *state;
    const struct plot_point f1[] = {{0, 0.25}, {5, NAN}, {10, 0.75}};
    const struct plot_curve scores[] = {{"event F1", f1, 3}};
    const struct plot_training t = {"few", "sub", NULL, scores, 0, 1, -1, "answers of readers"};
    snprintf(f->file, sizeof f->file, "%s/answers.svg", f->path);
    assert_int_equal(plot_training(f->file, &t, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_int_equal(count_of(text, ">answers of readers<"), 1);
    assert_int_equal(count_of(text, ">score<"), 1);
    assert_int_equal(count_of(text, ">loss<") + count_of(text, ">step<"), 0);
    assert_int_equal(count_of(text, ">0.2<"), 1);
    assert_int_equal(count_of(text, "event F1 at"), 2);
    assert_non_null(strstr(text, "event F1 at 10: 0.750"));
    assert_null(strstr(text, "nan"));
    free(text);
}

static void two_trainings_share_a_colour_for_each_quantity(void **state) {
    struct folder *f = *state;
    const struct plot_point a[] = {{10, 0.4}, {20, 0.5}}, b[] = {{10, NAN}, {30, 0.2}};
    const struct plot_quantity quantities[] = {{"training loss", false, {a, b}, {2, 2}}, {"event F1", true, {a, NULL}, {2, 0}}};
    struct plot_compare p = {"two", "sub", quantities, 2};
    struct err err = {0};
    snprintf(f->file, sizeof f->file, "%s/two.svg", f->path);
    assert_int_equal(plot_compare_draw(f->file, &p, &err), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_non_null(strstr(text, "class=\"line line0\""));
    assert_non_null(strstr(text, "class=\"line line0 dashed\""));
    assert_non_null(strstr(text, ">score<")); /* a panel of its own */
    assert_non_null(strstr(text, ">event F1<"));
    free(text);
    p.n = 0;
    assert_int_equal(plot_compare_draw(f->file, &p, &err), ERR_INVALID);
}

/* More names than fit above the axes. */
static void the_names_of_many_curves_stay_within_the_picture(void **state) {
    struct folder *f = *state;
    static const char *const names[] = {"training loss A", "training loss B", "validation loss A", "validation loss B",
                                        "event F1 A",      "event F1 B",      "AUROC A",           "AUROC B"};
    const struct plot_point points[] = {{10, 0.4}, {20, 0.5}};
    struct plot_curve curves[8];
    double width = 0, height = 0, x = 0, y = 0;
    for (int i = 0; i < 8; i++)
        curves[i] = (struct plot_curve){names[i], points, 2};
    const struct plot_training t = {"both", "sub", curves, curves + 4, 4, 4, -1, NULL};
    snprintf(f->file, sizeof f->file, "%s/both.svg", f->path);
    assert_int_equal(plot_training(f->file, &t, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_int_equal(sscanf(strstr(text, "viewBox=\"0 0 "), "viewBox=\"0 0 %lf %lf", &width, &height), 2);
    for (int i = 0; i < 8; i++) {
        char name[64];
        snprintf(name, sizeof name, ">%s<", names[i]);
        char *at = strstr(text, name);
        assert_non_null(at);
        while (strncmp(at, "<text", 5) != 0)
            at--;
        assert_int_equal(sscanf(strstr(at, " x="), " x=\"%lf\" y=\"%lf\"", &x, &y), 2);
        assert_true(x + 6.6 * (double)strlen(names[i]) < width && y < height);
    }
    free(text);
}

static void operating_points_show_sensitivity_and_delay(void **state) {
    struct folder *f = *state;
    const struct plot_point points[] = {{4, 0.9}, {1, 0.5}, {NAN, 0.7}, {60, 1}, {10, 0.2}};
    const struct plot_mark far[] = {{"far", 40, 1}};
    const struct plot_mark chosen[] = {{"5 <FA>", 4, 0.9}, {"none", NAN, NAN}};
    const double delays[] = {2, 7.5, 40};
    const struct plot_delays times[] = {{"of 5 <a day>", delays, 3}, {"of 10 a day", delays, 1}};
    struct plot_operating p = {.title = "Title & more",
                               .subtitle = "sub",
                               .events = {"events", points, 5, chosen, 2},
                               .alarms = {"alarms", points, 2, chosen, 1},
                               .delays = times,
                               .n_delays = 2,
                               .seizures = 4};
    snprintf(f->file, sizeof f->file, "%s/operating.svg", f->path);
    assert_int_equal(plot_operating(f->file, &p, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_non_null(strstr(text, "sensitivity 0.900 at 4.00 false alarms"));
    assert_non_null(strstr(text, "share of the seizures with an alarm"));
    assert_non_null(strstr(text, "of 5 &#60;a day&#62;"));
    assert_null(strstr(text, "nan"));
    /* 390 pixels are 20 false alarms and 40 s, 250 are all seizures */
    assert_non_null(strstr(text, "M60 330l19.5 0l0-125l58.5 0l0-100l312 0\""));           /* (1, 0.5), (4, 0.9) */
    assert_non_null(strstr(text, "M550 330l19.5 0l0-62.5l53.6 0l0-62.5l316.9 0l0-62.5")); /* 3 of 4, after 2, 7.5 and 40 s */
    assert_non_null(strstr(text, "M550 330l19.5 0l0-62.5l370.5 0\""));                    /* 1 of 4, after 2 s */
    free(text);
    p.events = (struct plot_choice){"events", points, 5, far, 1}; /* its axis ends at 80 */
    assert_int_equal(plot_operating(f->file, &p, NULL), 0);
    text = read_text(f->file);
    assert_non_null(strstr(text, "l273 0l0-25l97.5 0\"")); /* (60, 1) */
    free(text);
    p.n_delays = p.alarms.n_points = p.alarms.n_chosen = p.events.n_points = p.events.n_chosen = 0;
    p.seizures = 0;
    assert_int_equal(plot_operating(f->file, &p, NULL), 0);
    text = read_text(f->file);
    check_xml(text);
    assert_non_null(strstr(text, "no alarm at or after an onset"));
    free(text);
}

/* Five thousand rows of a lower and an upper margin and a curve; the second half of the curve is a gap. */
static void hours_are_drawn_in_strips(void **state) {
    enum { ROWS = 5000 };
    struct folder *f = *state;
    static double values[ROWS][3];
    static const char *const names[] = {"<left>"};
    const struct plot_strip strips[] = {{.title = "margins", .kind = PLOT_STRIP_BANDS, .columns = {0, 1}, .n = 2, .names = names},
                                        {.title = "a & b", .columns = {2}, .n = 1, .low = -1, .high = 1},
                                        {.title = "map", .kind = PLOT_STRIP_MAP, .columns = {1, 2}, .n = 2, .low = 0, .high = 10}};
    for (int i = 0; i < ROWS; i++) {
        values[i][0] = 4;
        values[i][1] = i % 2 ? 1e9 : 30; /* beyond the axis */
        values[i][2] = i < ROWS / 2 ? sin(i) : NAN;
    }
    struct plot_strips p = {
        .title = "\"night\"", .step_s = 10, .values = values[0], .n = ROWS, .columns = 3, .strips = strips, .n_strips = 3};
    snprintf(f->file, sizeof f->file, "%s/strips.svg", f->path);
    assert_int_equal(plot_strips_draw(f->file, &p, NULL), 0);
    char *text = read_text(f->file);
    check_xml(text);
    assert_int_equal(count_of(text, "band"), 450 + count_of(text, ".band"));
    assert_int_equal(count_of(text, "fill=\"#"), 1 + 450 + 225); /* the ground, and bins of the map without the gap */
    assert_null(strstr(text, "nan"));
    free(text);
    p.n = 0;
    assert_int_equal(plot_strips_draw(f->file, &p, NULL), ERR_INVALID);
}

/* It was killed after step 40, and went on from the checkpoint of step 10; the last line is torn. */
static void steps_that_come_again_leave_no_line_of_the_attempt_that_was_killed(void **state) {
    static const char text[] = "{\"kind\":\"step\",\"step\":10,\"loss\":5}\n{\"kind\":\"step\",\"step\":20,\"loss\":4}\n"
                               "{\"kind\":\"validation\",\"step\":20,\"validation_loss\":3,\"event_f1\":null}\n"
                               "{\"kind\":\"validation\",\"step\":40,\"validation_loss\":2,\"event_f1\":0.9}\n"
                               "{\"kind\":\"step\",\"step\":20,\"loss\":6}\n{\"kind\":\"st";
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        OWNED(course_done) struct course c = {.whole = whole};
        assert_int_equal(course_read(&c, text, sizeof text - 1, NULL), 0);
        const struct course_points loss = course_points_of(&c, COURSE_LOSS), f1 = course_points_of(&c, COURSE_EVENT_F1);
        assert_int_equal(c.n, 3);
        assert_int_equal(loss.n, 2);
        assert_int_equal(loss.best, 0);
        assert_true(loss.points[1].y == 6);
        assert_int_equal(f1.n, 0);
        free(loss.points);
        free(f1.points);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_recording_is_drawn_with_everything_it_has, setup, teardown),
        cmocka_unit_test_setup_teardown(an_unlabelled_recording_without_events_and_a_day_long_one_are_drawn_too, setup, teardown),
        cmocka_unit_test_setup_teardown(chains_stand_apart_and_the_clock_runs_on, setup, teardown),
        cmocka_unit_test_setup_teardown(texts_cannot_break_the_picture, setup, teardown),
        cmocka_unit_test_setup_teardown(envelopes_keep_extremes_and_leave_gaps_open, setup, teardown),
        cmocka_unit_test_setup_teardown(impossible_recordings_are_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(operating_points_show_sensitivity_and_delay, setup, teardown),
        cmocka_unit_test_setup_teardown(a_training_shows_loss_and_scores, setup, teardown),
        cmocka_unit_test_setup_teardown(the_names_of_many_curves_stay_within_the_picture, setup, teardown),
        cmocka_unit_test_setup_teardown(hours_are_drawn_in_strips, setup, teardown),
        cmocka_unit_test_setup_teardown(scores_alone_have_marks, setup, teardown),
        cmocka_unit_test_setup_teardown(two_trainings_share_a_colour_for_each_quantity, setup, teardown),
        cmocka_unit_test(steps_that_come_again_leave_no_line_of_the_attempt_that_was_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
