#include "compiler/target_tpu.h"

#include "backend/tpu/tpu.h"

static bool tpu_options_of(struct tpu_options *tpu, const struct target_options *options,
                           struct diag *diag) {
    const char *chip = options->chip ? options->chip : "v2";
    char why[256];
    *tpu = (struct tpu_options){.matmul_precision = options->matmul_precision};
    if (tpu_chip_load(&tpu->chip, chip, why, sizeof why)) return true;
    diag_error(diag, (struct src_loc){0}, "--chip=%s: %s", chip, why);
    return false;
}

bool tpu_target_check(struct hlo_module *module, const struct target_options *options,
                      struct diag *diag) {
    struct tpu_options tpu;
    return tpu_options_of(&tpu, options, diag) && tpu_check(module, &tpu, diag);
}
