-- Health of a CacheNode for Argo CD: resource.customizations.health.cachenode.io_CacheNode in the ConfigMap argocd-cm.
-- Healthy exactly when kstatus says Current: every pod is ready and runs what the spec asks for. Degraded when kstatus says Failed, as the
-- spec must be edited, and also where what it refers to is missing or pods are not ready though nothing is rolled out.
local health = {status = "Progressing", message = "The operator has not looked at it yet."}
local status = obj.status
if status == nil or status.conditions == nil then
  return health
end
if obj.metadata.generation ~= nil and status.observedGeneration ~= obj.metadata.generation then
  health.message = "The operator has not looked at the last edit yet."
  return health
end
local conditions = {}
for _, condition in ipairs(status.conditions) do
  conditions[condition.type] = condition
end
local function is(name)
  return conditions[name] ~= nil and conditions[name].status == "True"
end
if is("Stalled") then
  return {status = "Degraded", message = conditions.Stalled.message}
end
if is("Ready") then
  if is("Degraded") then -- all pods serve, and something else is wrong, such as a disk
    return {status = "Healthy", message = conditions.Degraded.message}
  end
  return {status = "Healthy", message = conditions.Ready.message}
end
if conditions.Accepted ~= nil and conditions.Accepted.status == "False" then
  return {status = "Degraded", message = conditions.Accepted.message}
end
if is("Degraded") and not is("Progressing") then
  return {status = "Degraded", message = conditions.Degraded.message}
end
if conditions.Ready ~= nil then
  health.message = conditions.Ready.message
end
return health
