//! Who the request's token is.

use axum::{Extension, Json};

use crate::domain::Permission;
use crate::server::context::Context;
use crate::server::error::ApiError;
use crate::server::query::Query;
use crate::wire::WhoAmI;

/// Show whose token this is and what it may do.
#[utoipa::path(get, path = "/v1/whoami", tag = "access",
    responses((status = 200, description = "The principal.", body = WhoAmI)))]
pub async fn whoami(Extension(context): Extension<Context>, _: Query) -> Result<Json<WhoAmI>, ApiError> {
    let principal = context.principal.ok_or_else(|| ApiError::internal("a request without a principal"))?;
    let granted = Permission::ALL.into_iter().filter(|permission| principal.role.may(*permission));
    Ok(Json(WhoAmI {
        permissions: granted.map(|permission| name(permission).to_owned()).collect(),
        name: principal.name,
        role: principal.role,
        token: principal.token,
    }))
}

const fn name(permission: Permission) -> &'static str {
    match permission {
        Permission::ReadTopology => "read_topology",
        Permission::Read => "read",
        Permission::Move => "move",
        Permission::Operate => "operate",
        Permission::Review => "review",
        Permission::Administer => "administer",
        Permission::Join => "join",
    }
}
