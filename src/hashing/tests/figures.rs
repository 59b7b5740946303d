//! The figures of a comparison, against values worked out by hand or by another way.

use super::super::{Event, Question, Sample, Terms, chart, conclude, generate, numbered, study};
use super::*;
use crate::domain::{Comparison, FamilyFigures, Millionths, Weight, Zone};

fn sample(count: u64) -> Sample {
    Sample::of_generated(generate(7, 0..count), false).unwrap()
}

fn compare(question: &Question, sample: &Sample) -> Comparison {
    let outcomes = question.families().iter().rev().map(|&family| study(question, sample, family, &|| 0)).collect();
    conclude(question, sample, outcomes)
}

fn grow(from: usize, to: usize) -> Question {
    Question::new(numbered(from, to).unwrap(), numbered(to, to).unwrap(), Terms::default(), None).unwrap()
}

fn of(comparison: &Comparison, family: Family) -> &FamilyFigures {
    comparison.outcomes.iter().find(|outcome| outcome.family == family).unwrap().figures.as_ref().unwrap()
}

#[test]
fn ten_nodes_and_one_more() {
    let comparison = compare(&grow(10, 11), &sample(100_000));
    assert_eq!(Family::ALL.to_vec(), comparison.outcomes.iter().map(|outcome| outcome.family).collect::<Vec<_>>());
    // One of eleven.
    assert_eq!(9091, comparison.least_keys);
    let modulo = of(&comparison, Family::Modulo);
    // n/(n+1) of the keys, of which one in eleven goes to the new node.
    assert!(modulo.keys_moved.abs_diff(90_909) < 500 && modulo.stray_moves.abs_diff(81_818) < 500, "{modulo:?}");
    let slots = of(&comparison, Family::Slots);
    // 1489 of 16384 slots.
    assert!(slots.keys_moved.abs_diff(9088) < 300 && slots.stray_moves == 0, "{slots:?}");
    // A table of two bytes a slot; 15 ranges of six bytes, and eleven names of seven letters with three bytes each.
    assert_eq!((32_768, 15 * 6 + 11 * 10), (slots.memory_bytes, slots.metadata_bytes));
    for family in Family::ALL {
        let figures = of(&comparison, family);
        assert!(figures.balance.lightest <= Millionths::ONE && Millionths::ONE <= figures.balance.heaviest);
        assert!(figures.views.spread_mean >= Millionths::ONE && figures.views.spread_max >= 1);
        assert_eq!(Millionths::ONE, figures.copies.distinct_nodes, "{family}");
    }
    // The plain ring: one heir that takes all; the others spread it over the nine that stay.
    let ring = of(&comparison, Family::Ring).takeover.unwrap();
    assert_eq!(1, ring.heirs);
    for family in [Family::VirtualNodes, Family::Rendezvous, Family::Anchor, Family::Slots] {
        let takeover = of(&comparison, family).takeover.unwrap();
        assert_eq!(9, takeover.heirs, "{family}");
        assert!(takeover.heir_growth < ring.heir_growth && takeover.heir_growth > Millionths(1_080_000), "{family}");
    }
    // Modulo under unequal views is the counter-example.
    let spread = |family| of(&comparison, family).views.spread_mean;
    assert!(spread(Family::Modulo) > Millionths(spread(Family::VirtualNodes).0 * 3 / 2));
    assert!(comparison.advice.last().unwrap().starts_with("Which to choose: "), "{:?}", comparison.advice);
}

/// O(t·log C): over t, and over n, spread and load stay below a small multiple of t times the logarithm.
#[test]
fn spread_and_load_grow_with_t_and_the_logarithm() {
    let sample = sample(5_000);
    for nodes in [8_usize, 64, 256] {
        for part in [2, 4] {
            let terms = Terms { view_part: part, views: 20, families: vec![Family::VirtualNodes], ..Terms::default() };
            let question =
                Question::new(numbered(nodes - 1, nodes).unwrap(), numbered(nodes, nodes).unwrap(), terms, None)
                    .unwrap();
            let views = of(&compare(&question, &sample), Family::VirtualNodes).views;
            let bound = u64::from(part) * u64::from(nodes.ilog2() + 1);
            assert!(u64::from(views.spread_max) <= 2 * bound, "{nodes} nodes, 1/{part}: {views:?}");
            assert!(views.load_max.0 <= 2_000_000 * bound, "{nodes} nodes, 1/{part}: {views:?}");
        }
    }
}

#[test]
fn moves_between_nodes_that_did_not_change_are_strays() {
    let before = numbered(3, 3).unwrap();
    let event = Event { reweight: vec![(before[2].name.clone(), Weight::new(4).unwrap())], ..Event::default() };
    let terms = Terms { families: vec![Family::Ketama, Family::Rendezvous, Family::Ring], ..Terms::default() };
    let question = Question::new(before.clone(), event.apply(&before).unwrap(), terms, None).unwrap();
    let comparison = compare(&question, &sample(20_000));
    assert_eq!(0, of(&comparison, Family::Rendezvous).stray_moves);
    assert!(of(&comparison, Family::Ketama).stray_moves > 0, "weighted ketama is not monotone");
    // From 1/3 to 4/6: a third of all keys.
    assert_eq!(6667, comparison.least_keys);
    let ring = comparison.outcomes.iter().find(|outcome| outcome.family == Family::Ring).unwrap();
    let why = ring.figures.as_ref().unwrap_err();
    assert!(why.contains("ring has no weights, but node-3 has 4 and node-1 has 1"), "{why}");
    assert!(comparison.advice[0].contains("Cannot carry this event: ring."), "{:?}", comparison.advice);
}

/// All keys equal in request: misses/s at time s are rate · moved/keys · e^(−rate·s/keys), by the textbook.
#[test]
fn the_curve_of_misses_decays_as_keys_are_asked_for() {
    let question = grow(10, 11);
    let comparison = compare(&question, &sample(100_000));
    let figures = of(&comparison, Family::Modulo);
    let step_s = figures.misses.step_ms as f64 / 1000.0;
    let curve = |s: f64| 10_000.0 * figures.keys_moved as f64 / 100_000.0 * (-10_000.0 * s / 100_000.0).exp();
    for (index, &misses) in figures.misses.misses.iter().enumerate() {
        let expected = curve((index as f64 + 0.5) * step_s) * step_s;
        assert!((misses as f64 / expected - 1.0).abs() < 0.01, "{index}: {misses} against {expected}");
    }
    let slots = &of(&comparison, Family::Slots).misses;
    assert!(slots.peak_per_second < figures.misses.peak_per_second / 10, "{slots:?}");
    assert!(slots.misses[0] < slots.misses[5], "slots go cold one after another: {slots:?}");
    let total = |misses: &[u64]| misses.iter().sum::<u64>();
    assert!(total(&slots.misses) <= of(&comparison, Family::Slots).keys_moved);
}

/// A key that gets half of all requests is asked for at once.
#[test]
fn repeated_keys_are_requests() {
    let mut trace = generate(7, 0..100);
    let hot = trace[3];
    trace.extend(std::iter::repeat_n(hot, 100));
    let sample = Sample::of_trace(&trace).unwrap();
    assert_eq!((100, 200, 101), (sample.len(), sample.requests, sample.counts[3]));
    assert_eq!(hot, sample.keys[3], "in the order in which they came first");
    let comparison = compare(&grow(10, 11), &sample);
    assert_eq!(Millionths(505_000), comparison.hot.hottest);
    assert!(
        comparison.advice.iter().any(|text| text.contains("Hot keys: the first gets 50.5 %")),
        "{:?}",
        comparison.advice
    );
    let modulo = of(&comparison, Family::Modulo);
    assert!(modulo.heaviest_requests > Millionths(5_000_000), "one node of eleven serves half: {modulo:?}");
}

#[test]
fn copies_keep_to_zones() {
    let zone = |index: usize| Some(Zone::new(["a", "b", "c"][index % 3]).unwrap());
    let mut after = numbered(9, 9).unwrap();
    after.iter_mut().enumerate().for_each(|(index, node)| node.zone = zone(index));
    let question = Question::new(after[..8].to_vec(), after, Terms::default(), None).unwrap();
    let comparison = compare(&question, &sample(2_000));
    for family in Family::ALL {
        let copies = of(&comparison, family).copies;
        assert_eq!(
            (3, Millionths::ONE, Some(Millionths::ONE)),
            (copies.copies, copies.distinct_nodes, copies.distinct_zones),
            "{family}"
        );
        assert!(copies.moved < Millionths::ONE && copies.moved > Millionths(0), "{family}: {copies:?}");
    }
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let nodes = |count| numbered(count, count).unwrap();
    let refusal = |before, after| Question::new(before, after, Terms::default(), None).unwrap_err().to_string();
    assert_eq!("event: changes nothing: add, drain or reweight a node", refusal(nodes(3), nodes(3)));
    assert_eq!("nodes: 0 is not in 1..=1024", refusal(nodes(0), nodes(3)));
    assert_eq!("nodes after the event: 0 is not in 1..=1024", refusal(nodes(3), nodes(0)));
    let twice = [nodes(2), nodes(2)].concat();
    assert_eq!("nodes: node-1 is given twice", refusal(twice, nodes(2)));
    assert!(numbered(1025, 0).is_err());
    let event = |event: Event| event.apply(&nodes(3)).unwrap_err().to_string();
    let name = |text: &str| NodeId::new(text).unwrap();
    assert_eq!("drain: x is not one of the nodes", event(Event { drain: vec![name("x")], ..Event::default() }));
    assert_eq!("drain: node-1 is given twice", event(Event { drain: vec![name("node-1"); 2], ..Event::default() }));
    assert_eq!("add: node-2 is there already", event(Event { add: vec![nodes(2)[1].clone()], ..Event::default() }));
    let reweight = |text| (name(text), Weight::ONE);
    assert_eq!(
        "weights: x is not one of the nodes",
        event(Event { reweight: vec![reweight("x")], ..Event::default() })
    );
    assert!(Sample::of_trace(&[]).unwrap_err().to_string().contains("keys: there is none"));
    let bad = |terms: Terms| terms.validate().unwrap_err().what;
    assert_eq!("families", bad(Terms { families: vec![], ..Terms::default() }));
    assert_eq!("families", bad(Terms { families: vec![Family::Ring; 2], ..Terms::default() }));
    assert_eq!("arity", bad(Terms { arity: 1, ..Terms::default() }));
    assert_eq!("views", bad(Terms { views: 0, ..Terms::default() }));
    assert!("crc".parse::<Family>().unwrap_err().to_string().contains("there are modulo, ring, vnodes"));
    assert!(Family::ALL.iter().all(|family| family.as_str().parse() == Ok(*family)));
}

#[test]
fn millionths_are_shown_rounded() {
    let shown = |number| Millionths(number).to_string();
    assert_eq!(["1.00", "0.00", "1.01", "10.00"], [1_000_000, 4_999, 1_005_000, 9_999_500].map(shown));
    assert_eq!("  1.5", format!("{:>5.1}", Millionths(1_459_999)));
    assert_eq!("2", format!("{:.0}", Millionths(1_500_000)));
    assert_eq!(Millionths(333_333), Millionths::ratio(1, 3));
    assert_eq!(Millionths(0), Millionths::ratio(5, 0));
}

/// The chart is well-formed, says what its axes are, and shows what it was given as text, not as markup.
#[test]
fn the_chart_is_well_formed() {
    let mut before = numbered(5, 5).unwrap();
    before[0].weight = 3;
    let mut after = before.clone();
    after.remove(4);
    let question = Question::new(before, after, Terms::default(), None).unwrap();
    let mut comparison = compare(&question, &sample(3_000));
    comparison.event = "<script>\u{0}\u{1b}[31m & \"nodes\"]]>".to_owned();
    let text = chart(&comparison);
    let document = roxmltree::Document::parse(&text).unwrap();
    let texts: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for expected in [
        "Keys moved",
        "keys moved, % of all keys",
        "Load of the nodes after it",
        "keys of a node over its fair share",
        "misses per second (log)",
        "seconds after the event begins",
        "cannot carry this event",
        "least possible",
    ] {
        assert!(texts.contains(&expected), "{expected} is missing");
    }
    assert!(Family::ALL.iter().all(|family| texts.contains(&family.as_str())));
    assert!(texts.iter().any(|text| text.contains("<script>\u{fffd}\u{fffd}[31m & \"nodes\"]]>")));
    assert!(text.contains("prefers-color-scheme:dark") && !text.contains("http:") | text.contains("xmlns"));
    assert!(document.descendants().all(|node| !node.has_tag_name("script")));
}
