"""Arithmetic, functions of one element, comparisons, logic, casts and selections."""

from __future__ import annotations

from ..compositions import arithmetic as means
from ..compositions import gamma, signs, special, triangles
from ..grid import grid
from ..row import Means, Op

UNARY = grid(
    """
    op                   onnx        ge          tvm           hlo                    pnnx
    abs                  Abs         Abs         abs           abs                    abs
    neg                  Neg         Neg         negative      negate                 neg
    log                  Log         -           log           log                    log
    sqrt                 Sqrt        Sqrt        sqrt          sqrt                   sqrt
    rsqrt                -           Rsqrt       rsqrt         rsqrt                  rsqrt
    reciprocal           Reciprocal  Reciprocal  reciprocal    -                      reciprocal
    square               -           Square      square        -                      square
    erf                  Erf         Erf         erf/fast_erf  erf                    erf
    expm1                -           Expm1       expm1         exponential-minus-one  expm1
    log1p                -           Log1p       log1p         log-plus-one           log1p
    floor                Floor       Floor       floor         floor                  floor
    ceil                 Ceil        Ceil        ceil          ceil                   ceil
    trunc                -           Trunc       trunc         -                      trunc
    sign                 Sign        Sign        sign          sign                   sign
    sin                  Sin         Sin         sin           sine                   sin
    cos                  Cos         Cos         cos           cosine                 cos
    tan                  Tan         Tan         tan           tan                    tan
    asin                 Asin        Asin        asin          asin                   asin
    acos                 Acos        Acos        acos          acos                   acos
    atan                 Atan        Atan        atan          -                      atan
    sinh                 Sinh        Sinh        sinh          sinh                   sinh
    cosh                 Cosh        Cosh        cosh          cosh                   cosh
    asinh                Asinh       Asinh       asinh         asinh                  asinh
    acosh                Acosh       Acosh       acosh         acosh                  acosh
    atanh                Atanh       Atanh       atanh         atanh                  atanh
    isnan                IsNaN       IsNan       isnan         -                      isnan
    popcount             -           -           -             popcnt                 -
    count_leading_zeros  -           -           -             count-leading-zeros    -
    """,
    onnx="{}(X)",
    ge="{}(x)",
    tvm="{}(data)",
    hlo="{}(x)",
    pnnx="torch.{0}/Tensor.{0}(input)",
)

BINARY = grid(
    """
    op     onnx            ge            tvm                                  hlo       pnnx
    sub    Sub             Sub           subtract/broadcast_sub/elemwise_sub  subtract  sub
    mul    Mul             Mul           multiply/broadcast_mul/elemwise_mul  multiply  mul
    atan2  -               Atan2         atan2                                atan2     atan2
    eq     Equal           Equal         equal/broadcast_equal                -         eq
    ne     -               NotEqual      not_equal/broadcast_not_equal        -         ne
    lt     Less            Less          less/broadcast_less                  -         lt
    le     LessOrEqual     LessEqual     less_equal/broadcast_less_equal      -         le
    gt     Greater         Greater       greater/broadcast_greater            -         gt
    ge     GreaterOrEqual  GreaterEqual  greater_equal/broadcast_greater_equal  -         ge
    """,
    onnx="{}(A, B)",
    ge="{}(x1, x2)",
    tvm="{}(lhs, rhs)",
    hlo="{}(a, b)",
    pnnx="torch.{0}/Tensor.{0}(input, other)",
)

ARITHMETIC = (
    Op(
        "add",
        onnx=("Add(A, B)", "Sum(data_0*) read only"),
        ge=("Add/AddV2(x1, x2)", "AddN(x*) read only"),
        tvm=("add/broadcast_add/elemwise_add(lhs, rhs)", "add_n/elemwise_sum(args*) read only"),
        hlo="add(a, b)",
        pnnx="torch.add/Tensor.add(input, other) by add",
    ),
    Op(
        "div",
        onnx="Div(A, B) by div",
        ge=(
            "RealDiv(x1, x2) where float by real_div",
            "Div(x1, x2) where rounding='trunc'",
            "FloorDiv(x1, x2) where rounding='floor'",
        ),
        tvm=(
            "divide(lhs, rhs) where float",
            "divide(lhs, rhs) where int, rounding='trunc'",
            "floor_divide/broadcast_div/elemwise_div(lhs, rhs)",
        ),
        hlo="divide(a, b) where float by divide",
        pnnx="torch.div/Tensor.div(input, other | rounding_mode) by div",
    ),
    Op(
        "mod",
        onnx="Mod(A, B | fmod) by mod",
        ge=("Mod(x1, x2) where sign='trunc'", "FloorMod(x1, x2) where sign='floor'"),
        tvm="floor_mod(lhs, rhs)",
        hlo="remainder(a, b) where float, sign='trunc' by remainder",
        pnnx=(
            "torch.remainder/Tensor.remainder(input, other) by remainder",
            "torch.fmod/Tensor.fmod(input, other) where sign='trunc'",
        ),
    ),
    Op(
        "pow",
        onnx="Pow(X, Y) by pow",
        ge="Pow(x1, x2)",
        tvm="power/broadcast_pow(lhs, rhs)",
        hlo="power(a, b) where float",
        pnnx="torch.pow/Tensor.pow(input, exponent)",
    ),
    Op(
        "max",
        onnx="Max(data_0*)",
        ge="Maximum(x1, x2)",
        tvm="maximum/broadcast_max(lhs, rhs)",
        hlo="maximum(a, b)",
        pnnx=(
            "torch.maximum/Tensor.maximum(input, other)",
            "torch./Tensor./aten::clamp_min(input, min) read only",
        ),
    ),
    Op(
        "min",
        onnx="Min(data_0*)",
        ge="Minimum(x1, x2)",
        tvm="minimum/broadcast_min(lhs, rhs)",
        hlo="minimum(a, b)",
        pnnx=(
            "torch.minimum/Tensor.minimum(input, other)",
            "torch./Tensor./aten::clamp_max(input, max) read only",
        ),
    ),
    Op(
        "exp",
        onnx="Exp(input)",
        ge="Exp(x | base, scale, shift) by exp",
        tvm="exp/fast_exp(data)",
        hlo="exponential(x)",
        pnnx="torch.exp/Tensor.exp(input)",
    ),
    Op("log", ge="Log(x | base, scale, shift) by log"),
    Op(
        "round",
        onnx="Round(X)",
        ge=("Rint(x)", "Round(x | decimals=0) read only"),
        tvm="round(data)",
        hlo="round-nearest-even(x)",
        pnnx="torch.round/Tensor.round(input)",
    ),
    Op(
        "isinf",
        onnx="IsInf(X | detect_negative, detect_positive) by isinf",
        ge="IsInf(x)",
        tvm="isinf(data)",
        pnnx="torch.isinf/Tensor.isinf(input)",
    ),
    Op("atan", hlo="atan(x) read only"),  # XLA's printer knows it, its parser does not
    # Ops without an ONNX operator are written as several nodes.
    Op("rsqrt", onnx="Reciprocal(Sqrt(X)) by rsqrt write only"),
    Op("square", onnx="Mul(X, X) by square write only"),
    Op("trunc", onnx="Where(X < 0, Ceil(X), Floor(X)) by trunc write only"),
    Op("expm1", onnx="Sub(Exp(X), 1) by expm1 write only"),
    Op("log1p", onnx="Log(Add(X, 1)) by log1p write only"),
    Op("ne", onnx="Not(Equal(A, B)) by ne write only"),
    Means(means.round_half_away, hlo="round-nearest-afz(x)"),
    Means(means.cube_root, hlo="cbrt(x)"),
    Means(means.mean, onnx="Mean(data_0*)"),
    Means(means.squared_difference, common="any", ge="SquaredDifference(x1, x2)"),
    Means(
        means.erfc,
        common="float",
        ge="Erfc(x)",
        pnnx="torch./Tensor./aten::erfc/aten::special_erfc(input)",
    ),
    Means(means.div_no_nan, common="any", ge="DivNoNan(x1, x2)"),
    Means(means.xdivy, common="any", ge="Xdivy(x1, x2)"),
    Means(means.xlogy, common="any", ge="Xlogy(x1, x2)"),
    Means(special.normal_distribution, common="float", pnnx="aten::special_ndtr(input)"),
    Means(special.xlogy, common="float", pnnx="torch./Tensor./aten::xlogy(input, other)"),
    Means(means.fraction, pnnx="torch./Tensor./aten::frac(input)"),
    Means(means.heaviside, common="any", pnnx="torch./Tensor./aten::heaviside(input, values)"),
    Means(means.logit, common="float", pnnx="torch./Tensor./aten::logit(input, eps=eps?)"),
    Means(means.sinc, common="float", pnnx="torch./Tensor./aten::sinc(input)"),
    Means(
        means.scaled_by,
        common="float",
        pnnx=(
            "torch./Tensor./aten::deg2rad(input) where factor=0.017453292519943295",
            "torch./Tensor./aten::rad2deg(input) where factor=57.29577951308232",
        ),
    ),
    Means(means.axpy, common="any", ge="Axpy(x1, x2 | alpha)"),
    Means(means.add_number, ge="Adds(x | value)"),
    Means(means.mul_number, ge="Muls(x | value)"),
    Means(
        means.add_scaled,
        common="any",
        pnnx="torch./Tensor./aten::addcmul(input, tensor1, tensor2, value=value?)",
    ),
    Means(
        means.add_scaled,
        common="float",
        pnnx="torch./Tensor./aten::addcdiv(input, tensor1, tensor2, value=value?) where divides=true",
    ),
    Means(means.lerp, common="float", pnnx="torch./Tensor./aten::lerp(input, end, weight)"),
    Means(
        means.reversed_sub,
        common="any",
        pnnx="torch./Tensor./aten::rsub(input, other, alpha=alpha?)",
    ),
    Means(means.hypot, common="float", pnnx="torch./Tensor./aten::hypot(input, other)"),
    Means(
        means.log_add_exp,
        common="float",
        pnnx="torch./Tensor./aten::logaddexp2(input, other) where base=2.0",
    ),
    Means(means.exp2, common="float", pnnx="torch./Tensor./aten::exp2(input)"),
    Means(
        means.nan_to_num,
        pnnx="torch./Tensor./aten::nan_to_num(input, nan=nan?, posinf=posinf?, neginf=neginf?)",
    ),
    Means(
        means.cross,
        common="any",
        pnnx="torch.linalg.cross/aten::linalg_cross(input, other, dim=axis?)",
    ),
    Means(
        means.cross_of_first,
        common="any",
        pnnx="torch./Tensor./aten::cross(input, other, dim=axis?)",
    ),
    Means(
        means.cosine_similarity,
        common="float",
        pnnx="torch./Tensor./aten::/F.cosine_similarity/nn.CosineSimilarity(x1, x2, dim=at?, eps=eps?)",
    ),
    Means(
        means.pairwise_distance,
        common="float",
        pnnx="torch./aten::/F.pairwise_distance/nn.PairwiseDistance(x1, x2, p=p?, eps=eps?, keepdim=keep_dims?)",
    ),
    Means(signs.sign_bit, pnnx="torch./Tensor./aten::signbit(input)"),
    Means(signs.sign, pnnx="torch./Tensor./aten::sgn(input)"),
    Means(signs.copy_sign, common="float", pnnx="torch./Tensor./aten::copysign(input, other)"),
    Means(
        signs.larger_number,
        common="any",
        pnnx=(
            "torch./Tensor./aten::fmax(input, other)",
            "torch./Tensor./aten::fmin(input, other) where op_name='min'",
        ),
    ),
    Means(
        special.digamma,
        common="float",
        pnnx="torch./Tensor./aten::digamma/aten::special_digamma(input)",
    ),
    Means(
        special.inverse_erf,
        common="float",
        pnnx="torch./Tensor./aten::erfinv/aten::special_erfinv(input)",
    ),
    Means(
        special.bessel_i0, common="float", pnnx="torch./Tensor./aten::i0/aten::special_i0(input)"
    ),
    Means(gamma.lgamma, common="float", pnnx="torch./Tensor./aten::lgamma(input)"),
    Means(
        means.distances,
        aten="_cdist_forward(x1, x2 | p, compute_mode=_)",
        pnnx="torch./Tensor./aten::cdist(x1, x2, p=p?, compute_mode=_)",
    ),
    Means(
        means.pair_distances,
        aten="_pdist_forward(self | p)",
        pnnx="torch./aten::/F.pdist(input, p=p?)",
    ),
    Means(special.next_number, common="float", pnnx="torch./Tensor./aten::nextafter(input, other)"),
    Means(special.fraction_and_exponent, pnnx="torch./Tensor./aten::frexp(input)"),
    Means(
        special.common_divisor,
        common="any",
        pnnx=(
            "torch./Tensor./aten::gcd(input, other)",
            "torch./Tensor./aten::lcm(input, other) where is_multiple=true",
        ),
    ),
)

LOGIC = (
    Op("and", onnx=("And(A, B) where bool", "BitwiseAnd(A, B) where int"), ge="LogicalAnd(x1, x2) where bool",
        tvm="logical_and(lhs, rhs)", hlo="and(a, b)",
        pnnx=("torch.bitwise_and/Tensor.bitwise_and(input, other)",
              "torch.logical_and/Tensor.logical_and(input, other) where bool read only")),
    Op("or", onnx=("Or(A, B) where bool", "BitwiseOr(A, B) where int"), ge="LogicalOr(x1, x2) where bool",
        tvm="logical_or(lhs, rhs)", hlo="or(a, b)",
        pnnx=("torch.bitwise_or/Tensor.bitwise_or(input, other)",
              "torch.logical_or/Tensor.logical_or(input, other) where bool read only")),
    Op("xor", onnx=("Xor(A, B) where bool", "BitwiseXor(A, B) where int"), hlo="xor(a, b)",
        pnnx=("torch.bitwise_xor/Tensor.bitwise_xor(input, other)",
              "torch.logical_xor/Tensor.logical_xor(input, other) where bool read only")),
    Op("not", onnx=("Not(X) where bool", "BitwiseNot(X) where int"), ge="LogicalNot(x) where bool",
        tvm="logical_not(data)", hlo="not(x)",
        pnnx=("torch.logical_not/Tensor.logical_not(input) where bool",
              "torch.bitwise_not/Tensor.bitwise_not(input)")),
    Op("shl", onnx="BitShift(X, Y | direction='LEFT')", hlo="shift-left(a, b)",
        pnnx="torch.bitwise_left_shift/Tensor.bitwise_left_shift(input, other)", aten="__lshift__(self, other)"),
    Op("shr", onnx="BitShift(X, Y | direction='RIGHT')",
        hlo="shift-right-arithmetic/shift-right-logical(a, b) by shift read only",
        pnnx="torch.bitwise_right_shift/Tensor.bitwise_right_shift(input, other)", aten="__rshift__(self, other)"),
    Means(means.is_finite, common="float", ge="IsFinite(x)", hlo="is-finite(x)",
        pnnx="torch./Tensor./aten::isfinite(input)", tvm="isfinite(data)"),
)  # fmt: skip

CHOICES = (
    Op(
        "select",
        onnx="Where(condition, X, Y) by choice",
        ge=("SelectV2(condition, then, else)", "Select(condition, x1, x2) by select read only"),
        tvm="where(condition, x, y)",
        hlo="select(p, x, y)",
        pnnx="torch.where/Tensor.where/aten::where(condition, input?, other?) by choice",
    ),
    Op(
        "cast",
        onnx="Cast(input | to=dtype) by cast",
        ge="Cast(x | dst_type=dtype)",
        tvm="cast(data | dtype)",
        hlo="convert(x) by convert",
        pnnx="Tensor.to(input | dtype)",
        aten="_to_copy(self, dtype=dtype)",
    ),
    Op(
        "bitcast",
        onnx="BitCast(input | to=dtype) by bitcast read only",
        hlo="bitcast-convert(x) by bitcast",
        aten="view(self, dtype=dtype) by view",
    ),
    Op(
        "copy",
        onnx="Identity(input) by copy",
        ge="Identity/TensorMove/StopGradient/PreventGradient(x) by copy",
        tvm="copy/identity/dropout/nn_dropout/block_grad/stop_gradient(data) by copy",
        hlo="copy(x) by copy",
        pnnx=(
            "torch./Tensor.clone(input) by copy",
            "torch./Tensor.contiguous/torch./Tensor.detach/torch./Tensor.positive/nn.Identity(input) by copy read only",
            "nn.Dropout/nn.Dropout[123]d/nn.AlphaDropout/nn.FeatureAlphaDropout/F.dropout/F.dropout[123]d/F.alpha_dropout"
            "/F.feature_alpha_dropout(input | p, training) by dropout read only",
        ),
        aten="clone(self) by copy",
    ),
    Means(
        means.filled,
        pnnx=(
            "torch.zeros/torch.empty(size=shape | dtype)",
            "torch.ones(size=shape | dtype) where value=1",
            "torch.full(size=shape | fill_value=value, dtype)",
        ),
    ),
    Means(triangles.identity, pnnx="torch.eye(n=rows, m=columns? | dtype)"),
    Means(
        means.filled_like,
        pnnx=(
            "torch.zeros_like/torch.empty_like(input | dtype)",
            "torch.ones_like(input | dtype) where value=1",
            "torch.full_like(input | fill_value=value, dtype)",
        ),
    ),
    Means(
        means.filled_as,
        pnnx=(
            "Tensor.new_zeros/Tensor.new_empty(input, size=shape | dtype)",
            "Tensor.new_ones(input, size=shape | dtype) where value=1",
            "Tensor.new_full(input, size=shape | fill_value=value, dtype)",
        ),
    ),
    Means(means.zeros_like, ge="ZerosLike(x)", tvm="zeros_like(data)"),
    Means(means.ones_like, ge="OnesLike(x)", tvm="ones_like(data)"),
    Means(means.cast_like, pnnx="Tensor.type_as(input, other)"),
)

DIRECTIONS = tuple(
    Op(name, hlo=f"compare(a, b | direction='{name.upper()}')")
    for name in ("eq", "ne", "lt", "le", "gt", "ge")
)

ROWS = (*UNARY, *BINARY, *DIRECTIONS, *ARITHMETIC, *LOGIC, *CHOICES)
