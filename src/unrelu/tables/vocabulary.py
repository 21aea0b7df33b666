"""The words of laboratories: names of columns, codes of flags, units, and cells such as "0.5 U" or "ND(0.5)".

A name is compared by its letters and digits alone, in lower case and without accents or what stands in brackets, so
that "Résultat [mg/l]", "RESULTAT" and "resultat" are one.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping

# --- cells --------------------------------------------------------------------------------------------


NOT_DETECTED_TOO = frozenset(
    (
        *("n.n.", "n.n", "n. n.", "n.b.", "n.b", "n. b.", "n.q.", "nq", "u", "bmdl", "brl", "below rl", "below mdl"),
        *("<bg", "<ng", "<nwg", "<mql", "<lor", "<lld", "<crql", "<rdl", "<limit", "below reporting limit"),
        *("non détecté", "non detecte", "non quantifié", "non quantifie", "nicht nachweisbar", "nicht bestimmbar"),
        *("unter bg", "unter ng", "<bestimmungsgrenze", "<nachweisgrenze", "<detection limit"),
        "present below quantification limit",
    )
)
"""Words for what was not detected, beside those of :mod:`unrelu.tables.cells`."""
_NUMBER = r"([+-]?[0-9.,][0-9.,eE+-]*?)"
_BELOW_NUMBER = re.compile(rf"(?:nd|n\.d\.?|n\.n\.?|bdl|bql)(?:\s*[(\[<@]\s*<?|\s)\s*{_NUMBER}\s*[)\]]?", re.I)
_NUMBER_CODE = re.compile(rf"(<?)\s*{_NUMBER}\s*[(\[]?(UJ|UB|BU|UD|U|ND|J[+-]?|JB|BJ|JD|NJ)[)\]]?")
_BRACKETED = re.compile(r"\[([^;\[\]]+);([^;\[\]]+)\]|\[([^,\[\]]+),([^,\[\]]+)\]|\[(\S+),\s+(\S+)\]")
_DASHED = re.compile(r"([0-9][0-9.,]*)\s*(?:-|–|to|bis|à)\s*([0-9][0-9.,]*)")


def qualified_cell(text: str, number: Callable[[str], float | None]) -> tuple[str, float] | None:
    """What a number with a laboratory's code says: "below" its number, or "estimated"; None for any other text.

    ``number`` reads a number, or returns None.

    >>> [qualified_cell(text, float) for text in ("0.5 U", "ND(0.5)", "0.5 UJ", "0.5J")]
    [('below', 0.5), ('below', 0.5), ('below', 0.5), ('estimated', 0.5)]
    """
    if found := _NUMBER_CODE.fullmatch(text):
        below, digits, code = found.groups()
        kind = "below" if below or code[0] == "U" or code in ("ND", "BU") else "estimated"
    elif found := _BELOW_NUMBER.fullmatch(text):
        kind, digits = "below", found[1]
    else:
        return None
    value = number(digits)
    return None if value is None or not abs(value) < float("inf") else (kind, value)


def interval_cell(text: str, number: Callable[[str], float | None], dashed: bool = False) -> tuple[float, float] | None:
    """The two ends of a cell such as "[0.1, 0.5]", or "0.1-0.5" where it may be ``dashed``; None for any other text.

    >>> interval_cell("[0.1, 0.5]", float), interval_cell("1-2", float), interval_cell("1-2", float, dashed=True)
    ((0.1, 0.5), None, (1.0, 2.0))
    """
    pattern = _DASHED if dashed else _BRACKETED
    if found := pattern.fullmatch(text.strip()):
        low, high = (number(end.strip()) for end in found.groups() if end is not None)
        if low is not None and high is not None and low < high:
            return low, high
    return None


def interval(low: str, high: str) -> str:
    """The cell that :func:`interval_cell` reads, of numbers as they are written."""
    return f"[{low}; {high}]"


# --- flags --------------------------------------------------------------------------------------------


MEANINGS = {"censored": "left", "above": "right", "seen": "seen", "missing": "missing"}
"""What a user may say of a code, and what this package calls it."""
_YES = frozenset(("1", "1.0", "true", "t", "yes", "y", "ja", "oui", "wahr", "vrai", "x"))
_NO = frozenset(("0", "0.0", "false", "f", "no", "n", "nein", "non", "falsch", "faux"))
_PLAIN_YES_NO = frozenset(
    ("0", "0.0", "1", "1.0", "true", "false", "yes", "no")
)  # that no list of codes has as a letter
_BLANK = frozenset(("", "-", "--", ".", "na", "nan", "none", "null", "<na>", "n/a"))
# Letters that EPA's laboratories join, as in "UJ" or "JB": U not detected, R rejected; the others leave a number one.
_LETTERS = re.compile(r"[ubdehjnpr]+[+-]?", re.I)
_CODES: dict[str, str] = {
    **dict.fromkeys(("<", "<=", "≤", "lt", "kleiner", "below", "cens", "censored", "not present"), "left"),
    **dict.fromkeys(
        (
            *("below daily detection limit", "below method detection limit", "below sample-specific detect limit"),
            *("below long-term blank-basd dt limit", "below system detection limit", "not detected at detection limit"),
            *("not detected at reporting limit", "nondetects", "*non-detect", "<dl", "traces", "trace"),
        ),
        "left",
    ),
    **dict.fromkeys(
        (
            *("present below quantification limit", "detected not quantified", "between inst detect and quant limit"),
            *("<loq", "<lq", "<ql", "<pql", "<bg", "bql", "blq", "bloq", "below loq", "below reporting limit", "<rl"),
        ),
        "quantitation",
    ),
    **dict.fromkeys(
        (">", ">=", "≥", "gt", "aql", "present above quantification limit", "above operating range"), "right"
    ),
    **dict.fromkeys(("not reported", "unable to measure", "rejected", "ns", "nr"), "missing"),
    **dict.fromkeys(("estimated", "est", "value decensored", "*"), "estimated"),
    **dict.fromkeys(("=", "detected", "det", "ok", "valid", "quantified"), "seen"),
}
_BY_COLUMN: dict[str, dict[str, str]] = {
    "nhanes": {"0": "seen", "1": "left", "2": "right"},
    "sandre": {"1": "seen", "10": "quantitation"},
}


def is_not_detected(word: str) -> bool:
    """Is a word, in lower case and with single spaces, one of this module's for what was not detected?"""
    return word in NOT_DETECTED_TOO


def meaning(code: str, role: str, given: Mapping[str, str], not_detected: Callable[[str], bool]) -> str | None:
    """What a flag says of its value; None where that is not known.

    "left": at most a limit; "quantitation": below a limit of quantitation; "right": at least its number; "estimated"
    and "seen": its number; "blank": nothing; "missing": rejected. ``role`` is that of the flag's column,
    ``given`` is what a user says of codes, ``not_detected`` finds the words of cells.

    >>> never = lambda word: False
    >>> [meaning(code, "flag", {}, never) for code in ("<", "UJ", "J", "R", "", "TRUE", "K")]
    ['left', 'left', 'estimated', 'missing', 'blank', 'left', None]
    >>> meaning("1", "detected", {}, never), meaning("K", "flag", {"K": "censored"}, never)
    ('seen', 'left')
    """
    code = code.strip()
    if code in given:
        return MEANINGS[given[code]]
    word = re.sub(r"\s+", " ", code.casefold())
    if word in _BLANK:
        return "blank"
    if role in _BY_COLUMN:
        return _BY_COLUMN[role].get(word.removesuffix(".0"))
    if role in ("censored", "detected") or word in _PLAIN_YES_NO:
        if word in _YES:
            return "seen" if role == "detected" else "left"
        if word in _NO:
            return "left" if role == "detected" else "seen"
    if word in _CODES:
        return _CODES[word]
    if not_detected(word):
        return "left"
    parts = [part for part in re.split(r"[\s,;/]+", word) if part]
    if len(parts) > 1:
        found = {meaning(part, role, given, not_detected) for part in parts}
        return None if None in found else next((each for each in _GRAVEST if each in found), "blank")
    if _LETTERS.fullmatch(word):
        return "missing" if "r" in word else "left" if "u" in word else "estimated"
    return None


_GRAVEST = ("missing", "right", "left", "quantitation", "estimated", "seen")


def is_yes_or_no(code: str) -> bool:
    """Is a flag a plain 0 or 1, TRUE or FALSE, yes or no, which other columns of numbers hold as well?"""
    return code.strip().casefold() in _PLAIN_YES_NO


# --- names of columns ---------------------------------------------------------------------------------


def key_of(name: str) -> str:
    """A name's letters and digits, in lower case and without accents or what stands in brackets.

    >>> key_of("Résultat [mg/l]"), key_of("As_Cen")
    ('resultat', 'ascen')
    """
    return "".join(words_of(name))


def words_of(name: str) -> tuple[str, ...]:
    """The words of a name, which spaces, signs and capitals within part.

    >>> words_of("AsCen"), words_of("q_As"), words_of("Zn (µg/l) Flag")
    (('as', 'cen'), ('q', 'as'), ('zn', 'flag'))
    """
    plain = name
    if not name.isascii():
        plain = "".join(each for each in unicodedata.normalize("NFKD", name) if not unicodedata.combining(each))
    plain = re.sub(r"[(\[].*?[)\]]", " ", re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", plain))
    return tuple(re.findall(r"[a-z0-9]+", plain.casefold()))


def _names(role: str, text: str) -> dict[str, str]:
    return dict.fromkeys(text.split(), role)


ROLES: dict[str, str] = {
    **_names(
        "flag",
        "q qual quals qualifier qualifiers flag flags remark remarks remarkcode rmk code labqualifier labqualifiers"
        " resultqualifier finalqualifier dataqualifier kennzeichen vorzeichen kz remarque coderemarque narsflag sign",
    ),
    **_names("censored", "cen cens censored censor nd nds nondetect nondetects bdl blq bql belowlod belowdl lodflag"),
    **_names("detected", "det detect detected detects detection detections detectflag"),
    **_names(
        "detection",
        "lod mdl idl dl ld ng nwg lld llod detectionlimit methoddetectionlimit nachweisgrenze limitededetection",
    ),
    **_names(
        "quantitation",
        "loq pql rl lq bg mrl crql crdl rdl lor mql ql lloq limit reportinglimit reportingdetectionlimit"
        " quantitationlimit quantificationlimit bestimmungsgrenze limitedequantification grenze",
    ),
    **_names("unit", "unit units einheit unite"),
    **_names("lower", "lower low lo lb left unten lowerbound"),
    **_names("upper", "upper high hi ub right oben upperbound"),
}
"""What the end (or the start) of a column's name says that the column is to the column of the rest of the name."""
PREFIXES = {**ROLES, "d": "detected"}
SURE_LIMITS = frozenset(
    _names(
        "limit",
        "lod mdl loq lld llod lloq pql nachweisgrenze bestimmungsgrenze detectionlimit methoddetectionlimit"
        " reportinglimit quantitationlimit quantificationlimit",
    )
)
"""Names of limits that no other kind of table has: a credit has a limit as well."""
VALUE_WORDS = frozenset(
    _names("value", "value val va result results conc concentration wert messwert ergebnis resultat valeur")
)

LONG: dict[str, tuple[str, ...]] = {
    role: tuple(names.split())
    for role, names in {
        "analyte": (
            "characteristicname chemicalname analytename analyte analyt compoundname compound substance stoff"
            " stoffname substanz parametername parameterbezeichnung parameterdescription parameter parametre"
            " lblongparametre nomparametre libelleparametre param paramcode constituent determinand element"
            " measurand merkmal messgrosse variable component parmcd cdparametre casrn cas casnumber"
        ),
        "value": (
            "resultmeasurevalue resultvalue resultva factvalue rsana result results value measurement measuredvalue"
            " concentration conc wert messwert ergebnis resultat valeur konzentration finalresult reportedvalue"
        ),
        "detected": "detectflag detected detection detect",
        "censored": "censored cen nondetect isnondetect nd",
        "sandre": "cdrqana coderemarque",
        "flag": (
            "resultdetectionconditiontext resultdetectioncondition detectioncondition interpretedqualifiers"
            " validatorqualifiers labqualifiers resultqualifier finalqualifier qualifier qualifiers qual remarkcd"
            " remark remarkcode flag flags measurequalifiercode sign vorzeichen messwertvorzeichen kennzeichen"
            " remarque signe code q"
        ),
        "detection": (
            "methoddetectionlimit mdl lod detectionlimit dl ld ldana nachweisgrenze ng limitededetection labmdl"
        ),
        "quantitation": (
            "detectionquantitationlimitmeasuremeasurevalue reportingdetectionlimit reportinglimit quantitationlimit"
            " rptlevva rl rdl loq pql lqana lq bestimmungsgrenze bg limitedequantification limit grenze lor"
        ),
        "unit": "resultmeasuremeasureunitcode resultunit resultunits units unit einheit unite symunitemesure",
        "limit unit": "detectionquantitationlimitmeasuremeasureunitcode detectionlimitunit limitunit",
        "fraction": "resultsamplefractiontext samplefraction fraction lbfractionanalysee",
        "sample": (
            "activityidentifier syssamplecode sampleid samplename samplecode sampleno samplenumber samplenr sample"
            " probe probenid probenr probennr probennummer probenbezeichnung echantillon idechantillon cdprelevement"
            " specimen subjectid subject fieldsampleid labsampleid seqn recordno"
        ),
        "site": (
            "monitoringlocationidentifier siteid siteno sitecode site stationid station locationid location"
            " messstelle standort ort cdstationmesureeauxsurface well wellid brunnen lieu"
        ),
        "date": (
            "activitystartdate activitystartdatetime sampledate samplingdate sampledt date datum probenahmedatum"
            " factdate dateprel"
        ),
        "time": "activitystarttimetime sampletime sampletm time uhrzeit heureprel",
        "depth": "activitydepthheightmeasuremeasurevalue depth tiefe profondeur startdepth",
    }.items()
}
"""Names of the columns of a table with a row for each value, the likeliest first."""
KEYS = frozenset(name for role in ("sample", "site", "date", "time") for name in LONG[role])
"""Names of columns that say which sample a row is of, and are no measurements even where they are numbers."""

NHANES = re.compile(r"(LB|UR|SS)D(\w+?)LC?")
"""The National Health and Nutrition Examination Survey's comment codes: LBDBPBLC is that of LBXBPB."""
NWIS = re.compile(r"r(\d{5})")
"""The remark codes of USGS's samples: r00618 is that of p00618."""

# --- units --------------------------------------------------------------------------------------------


_UNITS = frozenset(
    _names(
        "unit",
        "% ‰ ppm ppb ppt ntu fnu ph su °c degc m cm mm km s min h d mg g kg µg ug ng l ml mv kbe cfu mpn psu"
        " dimensionless ohne °dh meq mmol mol",
    )
)
_RATIO = re.compile(r"[a-zµ%°]{1,6}[0-9³²]?\s?/\s?(100\s?)?[a-zµ][a-z0-9³²^.-]{0,7}(\s\w{1,3}\.?)?")
_STORED = re.compile(r"\d+[sdnf]")


def unit_of(text: str) -> str:
    """A unit in one spelling: µg/L, ug/l and μg/l are one."""
    return re.sub(r"\s+", "", text.strip().strip("[]()")).casefold().replace("μ", "u").replace("µ", "u")


def is_unit(text: str) -> bool:
    """Is a cell a unit, or the width of a column as in USGS's files (15s, 10n)?

    >>> [is_unit(text) for text in ("mg/l", "[µg/L]", "°C", "mg/kg TS", "12n", "As", "abc")]
    [True, True, True, True, True, False, False]
    """
    text = text.strip()
    bracketed = text[:1] in ("[", "(") and text[-1:] in ("]", ")")
    plain = text.strip("[]()").casefold().replace("μ", "µ")
    return bracketed or plain in _UNITS or bool(_RATIO.fullmatch(plain) or _STORED.fullmatch(plain))
