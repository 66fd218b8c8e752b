#include "detect/seizure.h"

static int check_network(const struct seizure_config *c, struct err *err) {
    for (int i = 0; i < 4; i++)
        if (c->encoder_channels[i] < 4 || c->encoder_channels[i] > 4096)
            return err_set(err, ERR_INVALID, "encoder_channels[%d] is %d; expected 4 to 4096", i, c->encoder_channels[i]);
    if (c->rescnn_blocks < 0 || c->rescnn_blocks > 64 || c->mamba_layers < 0 || c->mamba_layers > 64)
        return err_set(err, ERR_INVALID, "rescnn_blocks %d and mamba_layers %d must lie in 0 to 64", c->rescnn_blocks,
                       c->mamba_layers);
    if (c->d_conv < 2 || c->d_conv > 8)
        return err_set(err, ERR_INVALID, "d_conv is %d; expected 2 to 8", c->d_conv);
    if (c->d_state < 1 || c->d_state > 256 || c->headdim < 1 || c->headdim > 256 || c->expand < 1 || c->expand > 8 ||
        c->ngroups < 1)
        return err_set(err, ERR_INVALID, "d_state %d, headdim %d (1 to 256), expand %d (1 to 8) or ngroups %d is out of range",
                       c->d_state, c->headdim, c->expand, c->ngroups);
    int inner = c->encoder_channels[3] * c->expand;
    if (inner % c->headdim || (inner / c->headdim) % c->ngroups)
        return err_set(err, ERR_INVALID, "headdim %d must divide expand·d_model = %d, and ngroups %d the number of heads",
                       c->headdim, inner, c->ngroups);
    if (!(c->dropout >= 0 && c->dropout < 1))
        return err_set(err, ERR_INVALID, "dropout is %g; expected 0 to below 1", (double)c->dropout);
    return 0;
}

static int check_unet(const struct seizure_config *c, struct err *err) {
    if (c->stage_convs)
        return err_set(err, ERR_INVALID, "stage_convs is %d; only a causal network has this setting", c->stage_convs);
    return check_network(c, err);
}

static int check_seconds(const struct seizure_config *c, struct err *err) {
    if (c->window % SEIZURE_STEP)
        return err_set(err, ERR_INVALID, "the window of a model of type %s has %lld samples; expected a multiple of %d",
                       seizure_type_name(c->type), (long long)c->window, SEIZURE_STEP);
    return 0;
}

static int check_causal(const struct seizure_config *c, struct err *err) {
    if (c->mixer != SEIZURE_MIXER_MAMBA2)
        return err_set(err, ERR_INVALID, "a causal network needs the mixer mamba2: that of conv looks ahead");
    if (c->stage_convs < 0 || c->stage_convs > 4)
        return err_set(err, ERR_INVALID, "stage_convs is %d; expected 1 to 4", c->stage_convs);
    int rc = check_seconds(c, err);
    return rc ? rc : check_network(c, err);
}

static int check_feature(const struct seizure_config *c, struct err *err) {
    bool none = !c->rescnn_blocks && !c->mamba_layers && !c->stage_convs && !c->encoder_channels[0] && !c->encoder_channels[1] &&
                !c->encoder_channels[2] && !c->encoder_channels[3];
    if (c->skip)
        return err_set(err, ERR_INVALID, "a model of type %s has no network that a skip could pass", seizure_type_name(c->type));
    if (c->in_channels != 1 || !none)
        return err_set(err, ERR_INVALID, "a model of type %s has one input and no layers; this one has %d inputs%s",
                       seizure_type_name(c->type), c->in_channels, none ? "" : " and layers");
    return check_seconds(c, err);
}

/* The rules of each type. How a type computes is in struct model_ops, which needs the kernels. */
static const struct type {
    int64_t step; /* samples of a pass that goes on where the last one ended; 0: none */
    /* Without a network: the initial logit = weight · feature + bias. Chosen on clips of two children (docs/models.md): p is 0.5
     * where the feature is 0.3 (a ratio of 1.35) for line_length and 0.5 (1.65) for band_power.
     * ward: the mean of both logits. */
    struct seizure_map map;
    /* INVALID for a configuration that passes the checks of all types and is none of this one. */
    int (*check)(const struct seizure_config *config, struct err *err);
} types[SEIZURE_TYPES] = {
    [SEIZURE_TYPE_UNET] = {.check = check_unet},
    [SEIZURE_TYPE_CAUSAL] = {.step = SEIZURE_STEP, .check = check_causal},
    [SEIZURE_TYPE_LINE_LENGTH] = {.step = SEIZURE_STEP, .map = {10, -3}, .check = check_feature},
    [SEIZURE_TYPE_BAND_POWER] = {.step = SEIZURE_STEP, .map = {6, -3}, .check = check_feature},
    [SEIZURE_TYPE_WARD] = {.step = SEIZURE_STEP, .map = {10, -3}, .check = check_feature},
};
static const char *const names[] = {
#define NAME(id, name, ops) name,
    SEIZURE_TYPE_ROWS(NAME)
#undef NAME
};

const char *seizure_type_name(enum seizure_type type) { return names[type]; }
bool seizure_is_feature(enum seizure_type type) { return types[type].map.weight != 0; }

enum seizure_type seizure_feature_from_name(const char *name) {
    int type = 0;
    while (type < SEIZURE_TYPES && !(seizure_is_feature((enum seizure_type)type) && !strcmp(name, names[type])))
        type++;
    return (enum seizure_type)type;
}

struct seizure_map seizure_map(enum seizure_type type) {
    return types[type].map;
}

int64_t seizure_step(const struct seizure_config *config) { return types[config->type].step; }

static const struct preset {
    enum seizure_type type;
    const char *name;
    int channels[4], rescnn_blocks, mamba_layers, headdim;
} presets[] = {
    {SEIZURE_TYPE_UNET, "tiny", {16, 32, 64, 128}, 1, 2, 64},   {SEIZURE_TYPE_UNET, "small", {32, 64, 128, 256}, 2, 4, 64},
    {SEIZURE_TYPE_UNET, "base", {64, 128, 256, 512}, 3, 6, 64}, {SEIZURE_TYPE_CAUSAL, "tiny", {16, 24, 32, 48}, 0, 2, 16},
    {SEIZURE_TYPE_CAUSAL, "small", {24, 32, 48, 64}, 0, 3, 16}, {SEIZURE_TYPE_CAUSAL, "base", {32, 48, 64, 96}, 0, 4, 16},
};

int seizure_preset(enum seizure_type type, const char *name, int in_channels, struct seizure_config *ret, struct err *err) {
    if (seizure_is_feature(type)) {
        *ret = (struct seizure_config){.type = type, .in_channels = in_channels, .window = 15360};
        return 0;
    }
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (presets[i].type != type || strcmp(presets[i].name, name))
            continue;
        *ret = (struct seizure_config){
            .type = type,
            .in_channels = in_channels,
            .window = 15360,
            SAME_MEMBERS(presets[i], rescnn_blocks, mamba_layers),
            .d_state = 16,
            .d_conv = 4,
            .expand = 2,
            .headdim = presets[i].headdim,
            .ngroups = 1,
            .dropout = 0.1f,
            .mixer = SEIZURE_MIXER_MAMBA2,
        };
        memcpy(ret->encoder_channels, presets[i].channels, sizeof presets[i].channels);
        return 0;
    }
    return err_set(err, ERR_INVALID, "model preset '%s' is unknown; expected tiny, small or base", name);
}

int seizure_stage_convs(const struct seizure_config *config) { return config->stage_convs ? config->stage_convs : 1; }

const char *seizure_preset_name(const struct seizure_config *c) {
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
        if (c->type == presets[i].type && !memcmp(c->encoder_channels, presets[i].channels, sizeof presets[i].channels) &&
            c->rescnn_blocks == presets[i].rescnn_blocks && c->mamba_layers == presets[i].mamba_layers && c->stage_convs <= 1)
            return presets[i].name;
    return seizure_is_feature(c->type) ? "none" : "custom";
}

int seizure_config_check(const struct seizure_config *c, struct err *err) {
    if (c->in_channels < 1 || c->in_channels > 512)
        return err_set(err, ERR_INVALID, "the model has %d input channels; expected 1 to 512", c->in_channels);
    if (c->window < 256 || c->window > 1 << 20 || c->window % 16)
        return err_set(err, ERR_INVALID, "the window has %lld samples; expected a multiple of 16 from 256", (long long)c->window);
    if (c->members < 0 || c->members > SEIZURE_MAX_MEMBERS)
        return err_set(err, ERR_INVALID, "an ensemble of %d networks; expected 1 to %d", c->members, SEIZURE_MAX_MEMBERS);
    if (c->members > 1 && seizure_is_feature(c->type))
        return err_set(err, ERR_INVALID, "models of type %s have no network and make no ensemble", seizure_type_name(c->type));
    return types[c->type].check(c, err);
}

/* The table of integer fields, for writing and reading JSON. */
#define CONFIG_FIELDS(X) X(in_channels) X(rescnn_blocks) X(mamba_layers) X(d_state) X(d_conv) X(expand) X(headdim) X(ngroups)

void seizure_config_to_json(const struct seizure_config *c, struct json_writer *w, const char *key) {
    json_begin_object(w, key);
    if (c->type != SEIZURE_TYPE_UNET) /* older versions write and read no type */
        json_put_str(w, "type", seizure_type_name(c->type));
    json_put_str(w, "preset", seizure_preset_name(c));
    json_put_i64(w, "window", c->window);
    JSON_ARRAY(w, "encoder_channels", c->encoder_channels, 4);
#define PUT(field) json_put_i64(w, #field, c->field);
    CONFIG_FIELDS(PUT)
#undef PUT
    json_put_f64(w, "dropout", (double)c->dropout);
    json_put_str(w, "mixer", c->mixer == SEIZURE_MIXER_CONV ? "conv" : "mamba2");
    if (c->members > 1)
        json_put_i64(w, "members", c->members);
    if (c->stage_convs > 1) /* older versions write and read none of these */
        json_put_i64(w, "stage_convs", c->stage_convs);
    if (c->skip)
        json_put_bool(w, "skip", true);
    json_end(w, '}');
}

int seizure_config_from_json(const struct json *j, struct seizure_config *ret, struct err *err) {
    struct seizure_config c = {.window = json_i64(json_get(j, "window"), 0)};
    for (int i = 0; i < 4; i++)
        c.encoder_channels[i] = (int)json_i64(json_at(json_get(j, "encoder_channels"), (size_t)i), 0);
#define GET(field) c.field = (int)json_i64(json_get(j, #field), -1);
    CONFIG_FIELDS(GET)
#undef GET
    c.dropout = (float)json_f64(json_get(j, "dropout"), -1);
    c.members = (int)json_i64(json_get(j, "members"), 0);
    c.stage_convs = (int)json_i64(json_get(j, "stage_convs"), 0);
    c.skip = json_bool(json_get(j, "skip"), false);
    const char *mixer = json_str(json_get(j, "mixer"), ""),
               *type = json_str(json_get(j, "type"), seizure_type_name(SEIZURE_TYPE_UNET));
    while (c.type < SEIZURE_TYPES && strcmp(type, names[c.type]) != 0)
        c.type++;
    if (c.type == SEIZURE_TYPES)
        return err_set(err, ERR_INVALID, "model type '%.40s' is unknown; expected %s", type, SEIZURE_TYPE_NAMES);
    if (strcmp(mixer, "conv") && strcmp(mixer, "mamba2"))
        return err_set(err, ERR_INVALID, "model mixer '%s' is unknown; expected mamba2 or conv", mixer);
    c.mixer = strcmp(mixer, "conv") ? SEIZURE_MIXER_MAMBA2 : SEIZURE_MIXER_CONV;
    int rc = seizure_config_check(&c, err);
    if (rc)
        return rc;
    *ret = c;
    return 0;
}
