/* Rasters: every spike where it belongs, rates that add up, and a bounded, well-formed picture for any network. With BRR_PLOT_DIR
 * set the pictures stay there to be looked at. */

#include "base/base.h"
#include "unit/temp_dir.h"

#include "base/rng.h"
#include "burst/raster.h"

static const char *picture(void **state, const char *name) {
    static char path[512];
    const char *dir = getenv("BRR_PLOT_DIR");
    if (dir)
        snprintf(path, sizeof path, "%s/%s", dir, name);
    else
        snprintf(path, sizeof path, "%s", in_dir(state, name));
    return path;
}

static char *saved(const struct raster *r, const char *path, const char *title) {
    struct err err = {0};
    char *text = NULL;
    size_t len = 0;
    assert_int_equal(raster_save(r, path, title, "10 neurons", &err), 0);
    assert_int_equal(fsio_read(path, 8 << 20, &text, &len, &err), 0);
    assert_non_null(strstr(text, "</svg>"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    return text;
}

static int count_of(const char *text, const char *what) {
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* Strokes of the marks of one colour and strength: moves in its path. */
static int strokes(const char *text, int band, const char *opacity) {
    char start[128];
    int n = 0;
    snprintf(start, sizeof start, "<path class=\"line%d\" fill=\"none\"", band);
    for (const char *at = text; (at = strstr(at, start)); at++) {
        const char *d = strstr(at, "d=\""), *strength = strstr(at, "stroke-opacity=\"");
        if (strncmp(strength + 16, opacity, strlen(opacity)) != 0 || strength[16 + strlen(opacity)] != '"')
            continue;
        for (const char *c = d + 3; *c != '"'; c++)
            n += *c == 'M';
    }
    return n;
}

static const struct connectome_area two[] = {{.name = "in"}, {.name = "o<u>t"}};

static void every_spike_of_a_small_network_is_one_mark(void **state) {
    uint32_t area_of[10] = {0, 0, 0, 0, 1, 1, 1, 1, 1, 1}, first[] = {0, 3, 9}, second[] = {4};
    struct raster *r = NULL;
    const struct raster_network n = {10, area_of, two, 2, 101, 50};
    assert_int_equal(raster_new(&n, &r, NULL), 0);
    raster_add(r, 101, first, 3);
    raster_add(r, 150, second, 1);
    raster_add(r, 100, first, 3); /* before and after what is drawn */
    raster_add(r, 151, first, 3);
    char *text = saved(r, picture(state, "small.svg"), "a <small> network");
    assert_int_equal(strokes(text, 0, "1"), 2);
    assert_int_equal(strokes(text, 1, "1"), 2);
    assert_int_equal(strokes(text, 0, ".45") + strokes(text, 1, ".65"), 0);
    /* Neuron 0 in the first tick: first row, first column. */
    assert_non_null(strstr(text, "stroke-opacity=\"1\" d=\"M146 98l4 0M146 134l4 0\""));
    assert_non_null(strstr(text, "a &#60;small&#62; network"));
    assert_non_null(strstr(text, "o&#60;u&#62;t"));
    assert_non_null(strstr(text, ">4 neurons<"));
    /* Two of four neurons of the first area in the first tick, none in the second, on a scale to 60 %. */
    assert_non_null(strstr(text, ">60 %<"));
    assert_non_null(strstr(text, "<path class=\"line line0\" d=\"M148 279.7l20 108.3l20 0"));
    assert_non_null(strstr(text, ">each row is a neuron<"));
    assert_non_null(strstr(text, ">105<"));
    assert_null(strstr(text, ">155<"));
    free(text);
    raster_free(r);
}

/* A network in waves, as much as a picture may meet: more neurons than rows, more ticks than columns. */
static struct raster *waves(uint32_t neurons, int64_t ticks, int areas, uint32_t *area_of) {
    static struct connectome_area named[40];
    static uint32_t ids[4000];
    struct raster *r = NULL;
    struct rng rng;
    rng_init(&rng, 3, RNG_SYNTH, 0);
    for (int i = 0; i < areas; i++)
        snprintf(named[i].name, sizeof named[i].name, "area %d with a rather long name µV", i + 1);
    for (uint32_t i = 0; i < neurons; i++)
        area_of[i] = (uint32_t)((double)i * i / ((double)neurons * neurons) * areas);
    const struct raster_network n = {neurons, area_of, named, areas, 1, ticks};
    assert_int_equal(raster_new(&n, &r, NULL), 0);
    for (int64_t t = 1; t <= ticks; t++) {
        int64_t fired = 0;
        for (uint32_t i = 0; i < neurons; i++)
            if (rng_uniform(&rng) < 0.02 + 0.03 * sin((double)t * 20 / (double)ticks + area_of[i]))
                ids[fired++] = i;
        raster_add(r, t, ids, fired);
    }
    return r;
}

static void many_neurons_and_ticks_stay_a_bounded_picture(void **state) {
    static uint32_t area_of[4000];
    struct raster *r = waves(4000, 3000, 5, area_of);
    char *text = saved(r, picture(state, "waves.svg"), "waves.safetensors");
    assert_non_null(strstr(text, "evenly chosen"));
    assert_non_null(strstr(text, "of 4,000"));
    assert_true(strlen(text) < 4 << 20);
    assert_int_equal(count_of(text, "<path class=\"line line"), 5);
    free(text);
    raster_free(r);
}

/* One neuron of thousands fires, as the driven one of a layer: it has a row although it is none of the even sample. */
static void a_neuron_that_fires_takes_the_row_of_a_silent_one(void **state) {
    static uint32_t area_of[4000];
    static const struct connectome_area area = {.name = "layer"};
    const struct raster_network n = {4000, area_of, &area, 1, 1, 10};
    for (int fires = 0; fires < 2; fires++) {
        const uint32_t ids[] = {0, 1999};
        struct raster *r = NULL;
        memset(area_of, 0, sizeof area_of);
        assert_int_equal(raster_new(&n, &r, NULL), 0);
        raster_add(r, 3, ids, fires * 2);
        char *text = saved(r, picture(state, "one.svg"), "one");
        assert_int_equal(strstr(text, "stroke-opacity=\"1\" d=\"M") != NULL, fires); /* a mark */
        free(text);
        raster_free(r);
    }
}

static void the_worst_picture_is_bounded_too(void **state) {
    static uint32_t area_of[2000], even[1000], odd[1000];
    const struct raster_network n = {2000, area_of, two, 2, 1, 1000};
    struct raster *r = NULL;
    for (uint32_t i = 0; i < 1000; i++) {
        even[i] = i;
        odd[i] = 1000 + i;
        area_of[1000 + i] = 1;
    }
    assert_int_equal(raster_new(&n, &r, NULL), 0);
    for (int64_t t = 1; t <= 1000; t++) /* every other cell is a stroke of its own */
        raster_add(r, t, t % 2 ? even : odd, 1000);
    char *text = saved(r, in_dir(state, "worst.svg"), "worst");
    assert_int_equal(strokes(text, 0, "1") + strokes(text, 1, "1"), 360 * 500);
    assert_true(strlen(text) < 5 << 20);
    free(text);
    raster_free(r);
}

static void many_areas_share_the_last_band(void **state) {
    static uint32_t area_of[300];
    struct raster *r = waves(300, 40, 30, area_of);
    char *text = saved(r, picture(state, "areas.svg"), "thirty areas");
    assert_int_equal(count_of(text, "<path class=\"line line"), RASTER_MOST_AREAS);
    assert_non_null(strstr(text, "23 other areas"));
    free(text);
    raster_free(r);
}

static void shared_columns_are_as_strong_as_their_share_of_spikes(void **state) {
    uint32_t area_of[2] = {0, 0}, one[] = {0}, both[] = {0, 1};
    const struct raster_network n = {2, area_of, two, 1, 1, 4000}; /* four ticks a column */
    struct raster *r = NULL;
    assert_int_equal(raster_new(&n, &r, NULL), 0);
    raster_add(r, 1, one, 1);
    for (int64_t t = 9; t <= 12; t++)
        raster_add(r, t, both, 2);
    for (int64_t t = 13; t <= 15; t++)
        raster_add(r, t, one, 1);
    char *text = saved(r, in_dir(state, "shares.svg"), "shares");
    assert_int_equal(strokes(text, 0, ".45"), 1);
    assert_int_equal(strokes(text, 0, ".65"), 0);
    assert_int_equal(strokes(text, 0, ".85"), 1);
    assert_int_equal(strokes(text, 0, "1"), 2);
    assert_non_null(strstr(text, ">100 %<"));
    free(text);
    raster_free(r);
}

static void one_silent_neuron_for_one_tick_is_a_picture(void **state) {
    uint32_t area_of[1] = {1};
    const struct raster_network n = {1, area_of, two, 2, 7, 1};
    struct raster *r = NULL;
    struct err err = {0};
    assert_int_equal(raster_new(&n, &r, NULL), 0);
    char *text = saved(r, picture(state, "silent.svg"), "silent");
    assert_non_null(strstr(text, ">1 neuron<"));
    assert_non_null(strstr(text, ">7<"));
    free(text);
    raster_free(r);
    for (int i = 0; i < 3; i++) {
        struct raster_network bad = n;
        *(i == 0 ? &bad.neurons : &bad.ticks) = i == 2 ? -1 : 0;
        assert_int_equal(raster_new(&bad, &r, &err), ERR_INVALID);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        in_temp_dir(every_spike_of_a_small_network_is_one_mark),
        in_temp_dir(many_neurons_and_ticks_stay_a_bounded_picture),
        in_temp_dir(the_worst_picture_is_bounded_too),
        in_temp_dir(a_neuron_that_fires_takes_the_row_of_a_silent_one),
        in_temp_dir(many_areas_share_the_last_band),
        in_temp_dir(shared_columns_are_as_strong_as_their_share_of_spikes),
        in_temp_dir(one_silent_neuron_for_one_tick_is_a_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
