//! Replies and messages as the bytes of RESP, for clients that read a stream.

use redis::{Value, VerbatimFormat};

/// A value as a server writes it: RESP3 for a value that RESP2 has not.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    append(value, &mut out);
    out
}

fn append(value: &Value, out: &mut Vec<u8>) {
    let line = |out: &mut Vec<u8>, line: String| out.extend(format!("{line}\r\n").into_bytes());
    let bulk = |out: &mut Vec<u8>, sign: char, bytes: &[u8]| {
        line(out, format!("{sign}{}", bytes.len()));
        out.extend(bytes);
        out.extend(b"\r\n");
    };
    let mut items = |sign: char, items: &[Value]| {
        line(out, format!("{sign}{}", items.len()));
        items.iter().for_each(|item| append(item, out));
    };
    match value {
        Value::Array(all) => items('*', all),
        Value::Set(all) => items('~', all),
        Value::Push { kind, data } => {
            let kind = Value::BulkString(kind.to_string().into_bytes());
            items('>', &[&[kind], &data[..]].concat());
        }
        Value::Map(pairs) => {
            line(out, format!("%{}", pairs.len()));
            append_pairs(pairs, out);
        }
        Value::Attribute { data, attributes } => {
            line(out, format!("|{}", attributes.len()));
            append_pairs(attributes, out);
            append(data, out);
        }
        Value::Nil => line(out, "$-1".into()),
        Value::Int(n) => line(out, format!(":{n}")),
        Value::Okay => line(out, "+OK".into()),
        Value::SimpleString(text) => line(out, format!("+{text}")),
        Value::Double(number) => line(out, format!(",{number}")),
        Value::Boolean(is_true) => line(out, format!("#{}", if *is_true { 't' } else { 'f' })),
        Value::BigNumber(digits) => line(out, format!("({}", digits.escape_ascii())),
        Value::BulkString(bytes) => bulk(out, '$', bytes),
        Value::VerbatimString { format, text } => {
            let format = match format {
                VerbatimFormat::Text => "txt",
                VerbatimFormat::Markdown => "mkd",
                VerbatimFormat::Unknown(other) => other,
                other => unreachable!("RESP has no {other:?}"),
            };
            bulk(out, '=', format!("{format}:{text}").as_bytes());
        }
        Value::ServerError(error) => {
            let details = error.details().map(|details| format!(" {details}"));
            line(out, format!("-{}{}", error.code(), details.unwrap_or_default()));
        }
        other => unreachable!("RESP has no {other:?}"),
    }
}

fn append_pairs(pairs: &[(Value, Value)], out: &mut Vec<u8>) {
    pairs.iter().flat_map(|(key, value)| [key, value]).for_each(|item| append(item, out));
}

#[cfg(test)]
mod tests {
    use redis::PushKind;

    use super::*;

    /// redis-rs decodes the bytes to the same values.
    #[test]
    fn replies_survive_the_wire() {
        let error = redis::parse_redis_value(b"-WRONGTYPE of a key\r\n").unwrap();
        let unknown = redis::parse_redis_value(b"-MINE\r\n").unwrap();
        let replies = vec![
            Value::Nil,
            Value::Int(-7),
            Value::Okay,
            Value::SimpleString("QUEUED".into()),
            Value::BulkString(b"\r\n\0".to_vec()),
            Value::BulkString(Vec::new()),
            error,
            unknown,
            Value::Array(vec![Value::Array(Vec::new()), Value::Nil]),
            Value::Map(vec![(Value::Int(1), Value::Set(vec![Value::Boolean(true), Value::Boolean(false)]))]),
            Value::Double(-0.5),
            Value::Double(f64::INFINITY),
            Value::BigNumber(b"-123456789012345678901234567890".to_vec()),
            Value::VerbatimString { format: VerbatimFormat::Text, text: "Some text".into() },
        ];
        let wire = encode(&Value::Array(replies.clone()));
        assert_eq!(redis::parse_redis_value(&wire).unwrap(), Value::Array(replies));
        let keys = Value::Array(vec![Value::BulkString(b"k".to_vec())]);
        let push = Value::Push { kind: PushKind::Invalidate, data: vec![keys] };
        assert_eq!(redis::parse_redis_value(&encode(&push)).unwrap(), push);
    }
}
