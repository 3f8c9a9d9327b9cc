#include "stores/redis/client/clients.h"
#include "stores/redis/client/master_client.h"

namespace sluice::redis {
namespace {

class StandaloneClient final : public MasterClient {
 public:
  using MasterClient::MasterClient;

 private:
  void find_server() override { switch_to(target()->servers.front(), false); }
};

}  // namespace

std::unique_ptr<Client> make_standalone_client(std::unique_ptr<EventLoop> loop,
                                               std::shared_ptr<const Target> target,
                                               StoreObserver* observer) {
  return std::make_unique<StandaloneClient>(std::move(loop), std::move(target), observer);
}

}  // namespace sluice::redis
