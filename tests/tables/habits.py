"""Tables as laboratories deliver them, one for each habit: little files made up here, by what the named source says.

A cell that was read is a number, ("<", limit), (">", limit) or None where it is missing. All files are read without an
option, but for those that name one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Cell = Any


class Habit(NamedTuple):
    """A file's name and content, and what it says: cells by column, and labels; ``options`` that the message names."""

    file: str
    content: str | bytes
    cells: dict[str, list[Cell]]
    labels: dict[str, list[str]] = {}  # noqa: RUF012 - nobody writes to it
    options: dict[str, Any] = {}  # noqa: RUF012


def below(limit: float) -> tuple[str, float]:
    return "<", limit


HABITS: dict[str, Habit] = {
    # EPA's laboratories write the limit and flag it U (not detected), UJ (and the limit estimated), J (estimated,
    # seen), R (unusable): "Data Qualifier Flag Definitions for Data Users",
    # https://pdfslide.net/amp/documents/appendix-b-data-qualifier-flag-definitions-for-data-qualifier-flag-definitions.html
    "EPA's qualifiers": Habit(
        "epa.csv",
        "Location,Arsenic,Arsenic_Q,Lead,Lead_Q\nMW-1,0.5,U,12,\nMW-2,0.7,J,1,UJ\nMW-3,2.4,,3,R\nMW-4,1,U,4.5,JB\n",
        {"Arsenic": [below(0.5), 0.7, 2.4, below(1)], "Lead": [12, below(1), None, 4.5]},
        {"Location": ["MW-1", "MW-2", "MW-3", "MW-4"]},
    ),
    # NADA's data sets have a logical column beside the values, TRUE for a less-than value:
    # https://rdocumentation.org/packages/NADA/versions/1.6-1.1/topics/Cen
    "NADA's indicator": Habit(
        "nada.csv",
        "As,AsCen,Zone\n0.5,TRUE,1\n0.5,FALSE,1\n1.0,FALSE,2\n1.5,TRUE,2\n5.0,FALSE,2\n",
        {"As": [below(0.5), 0.5, 1.0, below(1.5), 5.0], "Zone": [1, 1, 2, 2, 2]},
    ),
    # USGS's files have comments, a row of names and one of widths, and remark codes "<" and "E" (estimated, seen):
    # https://help.waterdata.usgs.gov/faq/about-tab-delimited-output; codes: Water-Quality Memorandum 2010.07,
    # https://water.usgs.gov/admin/memo/QW/qw10.07.html; names of columns: dataRetrieval's readNWISqw,
    # https://search.r-project.org/CRAN/refmans/dataRetrieval/html/readNWISqw.html
    "USGS's rdb files": Habit(
        "usgs.tsv",
        "# U.S. Geological Survey\n# made up\nsite_no\tsample_dt\tparm_cd\tremark_cd\tresult_va\n"
        "15s\t10d\t5s\t1s\t12n\n"
        "01594440\t2009-03-02\t00618\t<\t.04\n01594440\t2009-03-02\t00665\t\t.11\n"
        "01594440\t2009-04-06\t00618\t\t.92\n01594440\t2009-04-06\t00665\tE\t.02\n",
        {"00618": [below(0.04), 0.92], "00665": [0.11, 0.02]},
        {"site_no": ["01594440"] * 2, "sample_dt": ["2009-03-02", "2009-04-06"]},
    ),
    # The Water Quality Portal leaves the value of a non-detect empty, says why in ResultDetectionConditionText, and
    # gives the limit with a unit of its own: conditions by https://app.unpkg.com/wqx@3.0.249/files/values/
    # ResultDetectionCondition.json.js, use of them by https://usepa.github.io/EPATADA/reference/TADA_IDCensoredData.html
    "the Water Quality Portal's results": Habit(
        "wqp.csv",
        "ActivityIdentifier,CharacteristicName,ResultMeasureValue,ResultMeasure/MeasureUnitCode,"
        "ResultDetectionConditionText,DetectionQuantitationLimitMeasure/MeasureValue,"
        "DetectionQuantitationLimitMeasure/MeasureUnitCode\n"
        "A1,Arsenic,,,Not Detected,1.2,ug/l\nA1,Nitrate,0.4,mg/l,,0.1,mg/l\nA2,Arsenic,3.5,ug/l,,1.2,ug/l\n"
        "A2,Nitrate,,,Present Below Quantification Limit,0.2,mg/l\n"
        "A3,Arsenic,,,Present Above Quantification Limit,500,ug/l\n"
        "A3,Nitrate,0.9,mg/l,,0.1,mg/l\n",
        {"Arsenic": [below(1.2), 3.5, (">", 500)], "Nitrate": [0.4, below(0.2), 0.9]},
        {"ActivityIdentifier": ["A1", "A2", "A3"]},
    ),
    # NHANES fills in the limit by the root of 2, and says so by comment codes, 1 below the limit and 0 at or above it:
    # http://med.iiab.me/modules/en-cdc/www.cdc.gov/nchs/tutorials/environmental/critical_issues/limitations/Info2.htm.
    # A limit of 0.07 is filled in as 0.05 and one of 0.28 as 0.2, which rounding hides; values at the limit tell it.
    "NHANES's comment codes": Habit(
        "nhanes.csv",
        "SEQN,LBXBPB,LBDBPBLC,LBXBCD,LBDBCDLC\n1,0.05,1,0.4,0\n2,0.07,0,0.2,1\n3,1.8,0,0.28,0\n4,0.05,1,1.1,0\n",
        {"LBXBPB": [below(0.07), 0.07, 1.8, below(0.07)], "LBXBCD": [0.4, below(0.28), 0.28, 1.1]},
        {"SEQN": ["1", "2", "3", "4"]},
    ),
    # German figures: units below the names, decimal commas, "< 0,07", cells without a value as "-": Gewässerkundlicher
    # Landesdienst Sachsen-Anhalt, Zahlentafeln 2011, https://9dok.net/document/zx56jlrd-... ; as Excel writes csv,
    # with semicolons and in cp1252: https://wiki.scn.sap.com/wiki/display/ABAP/Excel+files+-+CSV+format
    "German figures": Habit(
        "zahlentafel.csv",
        "Gewässer Dietersdorfer Bach;;;\n;;;\nDatum;NH4-N;NO2;Leitfähigkeit\n;mg/l;mg/l;µS/cm\n"
        "08.02.2011;0,39;< 0,07;437\n29.03.2011;n.n.;0,10;429\n06.07.2011;1.040,5;< 0,07;-\n".encode("cp1252"),
        {"NH4-N": [0.39, None, 1040.5], "NO2": [below(0.07), 0.1, below(0.07)], "Leitfähigkeit": [437, 429, None]},
        {"Datum": ["08.02.2011", "29.03.2011", "06.07.2011"]},
        {"nondetect": "missing"},
    ),
    # Naïades, French surface waters: a row for each analysis, CdRqAna 1 where it was quantified and 10 below the limit
    # of quantification, by names of columns and codes in public readers of these files; codes: Sandre's dictionary,
    # http://id.eaufrance.fr/ddd/ALQ/2.2
    "Sandre's analyses": Habit(
        "analyses.csv",
        "CdStationMesureEauxSurface;DatePrel;LbLongParamètre;RsAna;CdRqAna;SymUniteMesure;LqAna\n"
        "05001;2016-03-01;Nitrates;12,5;1;mg/L;0,5\n05001;2016-03-01;Atrazine;0,02;10;µg/L;0,02\n"
        "05002;2016-03-01;Nitrates;0,5;10;mg/L;0,5\n05002;2016-03-01;Atrazine;0,31;1;µg/L;0,02\n".encode("latin-1"),
        {"Nitrates": [12.5, below(0.5)], "Atrazine": [below(0.02), 0.31]},
        {"CdStationMesureEauxSurface": ["05001", "05002"], "DatePrel": ["2016-03-01"] * 2},
    ),
    # EQuIS's results: detect_flag N, no value, and limits beside: EPA Region 5, Electronic Data Deliverable Manual, 2.7
    # (reporting non-detects), https://nepis.epa.gov/Exe/ZyPURL.cgi?Dockey=P100XLRU.txt
    "EQuIS's deliverables": Habit(
        "edd.csv",
        "sys_sample_code,chemical_name,result_value,result_unit,detect_flag,lab_qualifiers,method_detection_limit,"
        "reporting_detection_limit\nS1,Benzene,,ug/l,N,U,0.2,1\nS1,Toluene,0.6,ug/l,Y,J,0.3,1\n"
        "S2,Benzene,4.1,ug/l,Y,,0.2,1\nS2,Toluene,,ug/l,N,U,0.3,1\n",
        {"Benzene": [below(0.2), 4.1], "Toluene": [0.6, below(0.3)]},
        {"sys_sample_code": ["S1", "S2"]},
    ),
    # IMPROVE's aerosol: values below the MDL beside them as they were measured, negative ones too, and -999 where there
    # is none: https://views.cira.colostate.edu/fed/DataFiles/Schemas/IMPAER_AirFact_Export_Schema.aspx
    "IMPROVE's aerosol": Habit(
        "improve.txt",
        "SiteCode|FactDate|ParamCode|Units|FactValue|Status|Unc|MDL\n"
        "ACAD1|2022-01-02|ALf|ug/m^3|0.00044|V0|0.00089|0.00145\nACAD1|2022-01-02|CRf|ug/m^3|-0.00003|V0|0.00007|0.00011\n"
        "ACAD1|2022-01-05|ALf|ug/m^3|0.00271|V0|0.00089|0.00145\nACAD1|2022-01-05|CRf|ug/m^3|-999|M1|-999|-999\n",
        {"ALf": [below(0.00145), 0.00271], "CRf": [below(0.00011), None]},
        {"SiteCode": ["ACAD1"] * 2, "FactDate": ["2022-01-02", "2022-01-05"]},
    ),
    # Massachusetts' monitoring: "BDL" and "AQL" in place of a value, the limit in a column beside:
    # https://rdrr.io/cran/MassWateR/man/utilMWRlimits.html
    "words for values": Habit(
        "mass.csv",
        "Site,E. coli,E. coli Quantitation Limit\nM1,BDL,4\nM2,72,4\nM3,BDL,2\nM4,31,2\n",
        {"E. coli": [below(4), 72, below(2), 31]},
        {"Site": ["M1", "M2", "M3", "M4"]},
    ),
    # Missouri's reports: the MDL as the result, and ND in the column called Qualifier to its right:
    # https://oembed-dnr.mo.gov/document-search/understanding-sample-analysis-results-frequently-asked-questions-pub2878
    "flags called no more than Qualifier": Habit(
        "missouri.csv",
        "Sample,TCE,Qualifier,PCE,Qualifier\nA,1.0,ND,3.5,\nB,2.2,,0.5,ND\nC,1.0,ND,0.5,ND\n",
        {"TCE": [below(1), 2.2, below(1)], "PCE": [3.5, below(0.5), below(0.5)]},
        {"Sample": ["A", "B", "C"]},
    ),
    # EGRET's samples: date, remark code, value, the code before its value:
    # https://search.r-project.org/CRAN/refmans/EGRET/html/readUserSample.html
    "EGRET's remarks": Habit(
        "egret.csv",
        "date,remark,value\n2001-01-15,,1.2\n2001-02-12,<,0.1\n2001-03-19,,0.4\n",
        {"value": [1.2, below(0.1), 0.4]},
        {"date": ["2001-01-15", "2001-02-12", "2001-03-19"]},
    ),
    # fitdistrplus: left is NA for left-censored values, right for right-censored ones, both are equal for seen ones:
    # https://rdrr.io/cran/fitdistrplus/man/fitdistcens.html
    "ends of intervals": Habit(
        "intervals.csv",
        "Cd_left,Cd_right,Zn_left,Zn_right\nNA,0.1,5,5\n0.4,0.4,0,2\n0.7,0.7,90,NA\nNA,NA,7,7\n-Inf,0.2,8,8\n",
        {"Cd": [below(0.1), 0.4, 0.7, None, below(0.2)], "Zn": [5, below(2), (">", 90), 7, 8]},
    ),
    # Half of the limit in place of a non-detect is "general convention" in GWSDAT, which also writes ND<50:
    # https://claire.co.uk/help-desk?view=faq&faqid=89
    "half-limits": Habit(
        "halves.csv",
        "Well,Benzene\nW1,ND<50\nW2,25\nW3,25\nW4,310\nW5,25\nW6,87\nW7,25\nW8,61\n",
        {"Benzene": [below(50), below(50), below(50), 310, below(50), 87, below(50), 61]},
        {"Well": [f"W{k}" for k in range(1, 9)]},
    ),
    "half-limits beside their limits": Habit(  # the same, with the limits in a column
        "halves_beside.csv",
        "Well,Benzene,Benzene_MDL\nW1,0.25,0.5\nW2,0.71,1\nW3,3.1,0.5\nW4,0.25,0.5\nW5,0.8,0.5\nW6,0.05,0.1\n",
        {"Benzene": [below(0.5), below(1), 3.1, below(0.5), 0.8, below(0.1)]},
        {"Well": [f"W{k}" for k in range(1, 7)]},
    ),
    # Excel's "Unicode Text": UTF-16 with tabs, http://herongyang.com/Unicode/Excel-Save-File-in-Unicode-Text-txt.html,
    # here with codes in the cells themselves, as above
    "Excel's Unicode text": Habit(
        "unicode.txt",
        "Probe\tAs µg/l\tPb µg/l\r\nP1\t0.5 U\tND(2)\r\nP2\t0.7 J\t3\r\nP3\t1.5\t< 2\r\n".encode("utf-16"),
        {"As µg/l": [below(0.5), 0.7, 1.5], "Pb µg/l": [below(2), 3, below(2)]},
        {"Probe": ["P1", "P2", "P3"]},
        {"id": ["Probe"]},  # nothing but the column of names is unusual: it is read as any plain table
    ),
    # The first line has the names, the second the units, all separated by tabs: a data set's readme,
    # https://mdr.nims.go.jp/filesets/57a777d3-3b74-4fcf-8eb8-db5276dab5a6/download ; here aligned by spaces, as printed
    "columns aligned by spaces": Habit(
        "printed.txt",
        "  Temp   Conc\n  K      mol/l\n  273.1  <0.2\n  298.0   0.31\n  310.5   1.2\n",
        {"Temp": [273.1, 298.0, 310.5], "Conc": [below(0.2), 0.31, 1.2]},
    ),
}
