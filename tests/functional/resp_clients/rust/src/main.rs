//! Connects with redis-rs to the port in the first argument, with the password in the second if it is
//! given, and prints the replies as one JSON object.

use redis::{cmd, Connection, RedisResult, Value};

fn throttle(key: &str, burst: i64) -> redis::Cmd {
    let mut throttle = cmd("CL.THROTTLE");
    throttle.arg(key).arg(burst).arg(1).arg(3600);
    throttle
}

fn main() -> RedisResult<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let password = arguments.get(2).map(|text| format!(":{}@", text.replace(' ', "%20")));
    let url = format!("redis://{}127.0.0.1:{}", password.unwrap_or_default(), arguments[1]);
    let mut connection: Connection = redis::Client::open(url)?.get_connection()?;

    let mut pipeline = redis::pipe();
    for _ in 0..1000 {
        pipeline.add_command(throttle("rust-many", 999));
    }
    let many: Vec<Vec<i64>> = pipeline.query(&mut connection)?;
    let remaining: Vec<i64> = many.iter().map(|reply| reply[2]).collect();
    let first: Vec<i64> =
        cmd("CL.THROTTLE").arg("rust").arg(15).arg(30).arg(60).query(&mut connection)?;
    let limit: Vec<Value> =
        cmd("RL.LIMIT").arg("rust").arg("token_bucket").arg(10).arg("60s").query(&mut connection)?;
    let wrong: RedisResult<Value> =
        cmd("CL.THROTTLE").arg("rust").arg("x").arg(1).arg(1).query(&mut connection);
    let transaction: RedisResult<Value> =
        redis::pipe().atomic().add_command(throttle("rust", 15)).query(&mut connection);
    let ping: String = cmd("PING").query(&mut connection)?;
    let _: () = cmd("CLIENT").arg("SETNAME").arg("checks").query(&mut connection)?;
    let name: String = cmd("CLIENT").arg("GETNAME").query(&mut connection)?;
    println!(
        "{{\"redis-rs\": {{\"first\": {:?}, \"remaining\": {:?}, \"limit\": {:?}, \"error\": {:?}, \
         \"ping\": {:?}, \"name\": {:?}, \"transaction\": {:?}}}}}",
        first,
        remaining,
        format!("{:?}", limit),
        wrong.unwrap_err().to_string(),
        ping,
        name,
        transaction.unwrap_err().to_string()
    );
    Ok(())
}
